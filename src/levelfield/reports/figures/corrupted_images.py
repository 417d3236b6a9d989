"""A sheet of one image under the corruptions (lim2022, figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from levelfield.data import corruptions, read_image
from levelfield.data.views.corrupted import identity
from levelfield.randomness import numpy_stream
from levelfield.registry import short_name
from levelfield.reports.figures._drawing import panel_grid, plainly, save, shortened
from levelfield.reports.figures._images import pictured
from levelfield.reports.figures._registry import register
from levelfield.reports.figures._rows import Drawn

_COLUMNS = 5


@register("corruptions", "a test image under every corruption")
def draw_corrupted(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw one test image, chosen by a named stream, under each corruption."""
    images = pictured(rows, metric, "corruptions").images
    image = int(numpy_stream(0, "corruptions", "image").integers(len(images)))
    return draw_corruptions(read_image(images.paths[image]), corruptions.names(), path)


@plainly
def draw_corruptions(image: Image.Image, names: Sequence[str], path: Path, *, side: int = 224) -> Path:
    """Draw the image, its shorter side scaled to `side`, and the image under each corruption by name."""
    scale = side / min(image.size)
    small = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BICUBIC)
    shown = {"image": np.asarray(small)}
    for name in names:
        drawn = corruptions.stream(name, identity(image))
        shown[short_name(name).replace("_", " ")] = corruptions.create(name)(np.asarray(small), drawn)
    height = min(1.9 * small.height / small.width + 0.3, 8)
    figure, axes = panel_grid(len(shown), across=_COLUMNS, width=1.9, height=height)
    for axis, name, picture in zip(axes, shortened(list(shown), 24), shown.values(), strict=True):
        axis.set_axis_off()
        axis.imshow(picture)
        axis.set_title(name)
    return save(figure, path)
