"""Activation maps (lim2022 D.1, figures 3 and 4): the strongest channels of the last feature map, over the image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from levelfield import embedder
from levelfield.data.images import Picture, opened
from levelfield.data.loader import Loader
from levelfield.data.views import StepsView, TestView
from levelfield.embedder.devices import requested
from levelfield.errors import BadInput
from levelfield.randomness import numpy_stream
from levelfield.reports.figures._drawing import panels, plainly, save, shortened
from levelfield.reports.figures._images import pictured
from levelfield.reports.figures._registry import register
from levelfield.reports.figures._rows import Drawn

IMAGES = 4


class TopMaps(NamedTuple):
    """`maps` (channels, height, width) are those of `top_channels`, the largest mean first, each scaled to 0..1."""

    channel_means: np.ndarray
    top_channels: np.ndarray
    maps: np.ndarray


def top_maps(activations: np.ndarray, *, channels: int = 3) -> TopMaps:
    """The channels with the largest spatial mean of one image's feature map (channels, height, width).

    >>> strongest = top_maps(np.array([[[0.0, 1.0]], [[5.0, 5.0]], [[2.0, 4.0]]]), channels=2)
    >>> strongest.top_channels.tolist(), strongest.maps.tolist()  # a constant channel gives 0
    ([1, 2], [[[0.0, 0.0]], [[0.0, 1.0]]])
    """
    activations = np.asarray(activations, dtype=np.float64)
    if activations.ndim != 3 or not 1 <= channels <= len(activations):
        raise BadInput(
            f"A feature map must have shape (channels, height, width) with at least {channels} channels, "
            f"not {activations.shape}."
        )
    means = activations.mean(axis=(1, 2))
    top = np.argsort(-means, kind="stable")[:channels]
    low, high = (end(activations[top], axis=(1, 2), keepdims=True) for end in (np.min, np.max))
    spans = np.where(high > low, high - low, 1.0)
    return TopMaps(means, top, (activations[top] - low) / spans)


@register(
    "activation-maps", "the three strongest channels of the last feature map over four test images, by each method"
)
def draw_of_rows(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw the first seed of up to four rows, the worst first; images are drawn by a named stream, one per class."""
    shown = pictured(rows, metric, "activation-maps")
    folders = {row.row.label: row.results[0].folder for row in rows if row.row.label in shown.embeddings}
    models = {label: embedder.load(folders[label], device=requested()) for label in reversed(shown.embeddings)}
    single = {label: model for label, model in models.items() if isinstance(model, embedder.Model)}
    if not single:
        raise BadInput("The figure 'activation-maps' needs a row with a single network: all rows here join several.")
    order = numpy_stream(0, "activation maps", "images").permutation(len(shown.images))
    _, first = np.unique(shown.images.codes[order], return_index=True)
    chosen = order[np.sort(first)[:IMAGES]]
    pictures, maps = activations(single, [shown.images.paths[image] for image in chosen])
    return draw_activation_maps(pictures, maps, path)


def activations(
    models: dict[str, embedder.Model], images: Sequence[Picture]
) -> tuple[list[np.ndarray], dict[str, list[np.ndarray]]]:
    """The images as the first model sees them, and by label the last feature map (channels, height, width) of each."""
    first = next(iter(models.values())).view
    assert isinstance(first, TestView | StepsView)
    maps = {}
    for label, model in models.items():
        seen = torch.cat([part for (part,) in Loader(images, model.view, device=model.device)])
        maps[label] = list(model.embedder.trunk.maps(seen)[-1].cpu().numpy())
    return [np.asarray(first.picture(opened(image, decoded=first.decoded))) for image in images], maps


def overlaid(image: np.ndarray, heat: np.ndarray) -> np.ndarray:
    """The image blended half and half with a map of 0..1, resized (bilinear) and drawn as heat colours."""
    from matplotlib import colormaps

    size = image.shape[1], image.shape[0]
    large = np.asarray(Image.fromarray(heat.astype(np.float32)).resize(size, Image.Resampling.BILINEAR))
    colours = colormaps["jet"](np.clip(large, 0, 1))[..., :3] * 255
    return np.asarray(np.rint(0.5 * image + 0.5 * colours), np.uint8)


@plainly
def draw_activation_maps(
    images: list[np.ndarray], activations: dict[str, list[np.ndarray]], path: Path, *, channels: int = 3
) -> Path:
    """Draw one block of `channels` columns per image; rows are the image, then each network by its label.

    images: uint8 (height, width, 3). activations: by label, the last feature map of each image.
    """
    columns, names = len(images) * channels, ["image", *shortened(list(activations), 24)]
    width = 1.2 * columns + 0.4 + 0.065 * max(map(len, names))
    figure, axes = panels(1 + len(activations), columns, width=width, height=1.3 * (1 + len(activations)))
    for axis in axes.ravel():
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
    for number, image in enumerate(images):
        axes[0, number * channels].imshow(image)
        for row, maps in enumerate(activations.values(), 1):
            for column, heat in enumerate(top_maps(maps[number], channels=channels).maps):
                axes[row, number * channels + column].imshow(overlaid(image, heat))
    for axis, name in zip(axes[:, 0], names, strict=True):
        axis.set_ylabel(name, fontsize=8, rotation=0, ha="right", va="center")
    return save(figure, path)
