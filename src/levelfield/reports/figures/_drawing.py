"""Shared by all figures: panels, literal text, and files written atomically. Opens no window."""

from __future__ import annotations

import functools
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from levelfield.errors import BadInput
from levelfield.files.writing import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL import Image

FORMATS = ("png", "pdf", "svg")
GRID = "#eeeeee"
# user labels may contain `$`, which is not a formula; axes have no offsets such as "+6.8e2"
PLAIN: Any = {"text.parse_math": False, "axes.formatter.useoffset": False}
SIZES: Any = {"axes.labelsize": 9, "axes.titlesize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8}

P = ParamSpec("P")
T = TypeVar("T")


def plainly(draw: Callable[P, T]) -> Callable[P, T]:
    """Decorator of every function that draws a figure: text is shown literally."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> T:
        import matplotlib

        with matplotlib.rc_context(PLAIN | SIZES), warnings.catch_warnings():
            # characters missing from the font become boxes; no warning for that
            warnings.filterwarnings("ignore", message="(?s)Glyph .* missing from")
            warnings.filterwarnings("ignore", message="(?s).*Matplotlib currently does not support .* natively")
            return draw(*args, **kwargs)

    return drawn


def panels(
    rows: int,
    columns: int,
    *,
    width: float,
    height: float,
    ratios: tuple[float, ...] = (),
    heights: tuple[float, ...] = (),
    share: bool = False,
    dpi: int = 120,
) -> tuple[Figure, Any]:
    """A figure and its panels (rows, columns), without top and right spines. `share`: all panels use one scale.

    dpi: pixels per inch, also of images in PDF and SVG files.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)  # measures text
    axes = figure.subplots(
        rows,
        columns,
        squeeze=False,
        width_ratios=ratios or None,
        height_ratios=heights or None,
        sharex=share,
        sharey=share,
    )
    for axis in np.ravel(axes):
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_axisbelow(True)
    return figure, axes


def save(figure: Figure, path: Path, *, of_images: bool = False) -> Path:
    """Write the figure in the format given by the file extension.

    of_images: a PNG has the 256 colours that suit it best, and a quarter of the bytes.
    """
    check_name(path)
    written = path.suffix[1:].lower()
    if of_images and written == "png":
        few = _in_few_colours(figure)
        write_whole(path, lambda file: few.save(file, written, optimize=True, dpi=(figure.dpi, figure.dpi)))
    else:
        write_whole(path, lambda file: figure.savefig(file, format=written))
    return path


def _in_few_colours(figure: Figure) -> Image.Image:
    from PIL import Image

    content = io.BytesIO()
    figure.savefig(content, format="png")
    return Image.open(content).convert("RGB").quantize(256)  # median cut; dithering would tint the white around images


def check_name(path: Path) -> None:
    if path.suffix[1:].lower() not in FORMATS:
        raise BadInput(f"Cannot write a figure to '{path.name}': the file name must end with .png, .pdf or .svg.")
