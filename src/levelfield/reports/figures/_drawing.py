"""Shared by all figures: panels, literal text, labels and legends that fit, and files written atomically."""

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
import math
from collections.abc import Sequence

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


def panel_grid(
    count: int, *, across: int, width: float, height: float, beside: float = 0, below: float = 0, share: bool = False
) -> tuple[Figure, list[Any]]:
    """A figure with so many panels of one size, at most `across` in a line. beside, below: inches for what is there."""
    columns = min(across, count)
    rows = math.ceil(count / columns)
    figure, axes = panels(rows, columns, width=width * columns + beside, height=height * rows + below, share=share)
    for axis in axes.ravel()[count:]:
        axis.set_visible(False)
    return figure, list(axes.ravel()[:count])


def write_values(axis: Any, values: np.ndarray, form: str, *, dark: np.ndarray) -> None:
    """Write the values of a heat map into its fields, in white where the field is dark; nan stays empty."""
    for (down, across), value in np.ndenumerate(values):
        text, colour = "" if np.isnan(value) else f"{value:{form}}", "white" if dark[down, across] else "black"
        axis.text(across, down, text, ha="center", va="center", fontsize=7, color=colour)


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


LONG = 40  # characters of a label; longer labels are shortened in the middle
TALL = 9.0  # inches of a legend in one column


def shortened(texts: Sequence[str], most: int = LONG) -> list[str]:
    """The texts, shortened to about `most` characters; distinct texts stay distinct.

    >>> shortened(["margin", "a very long label [dim=64]", "a very long label [dim=65]"], 14)
    ['margin', 'a very l…m=64]', 'a very l…m=65]']
    """
    short_texts: dict[str, str] = {}
    head = 8 * most // 14
    for text in dict.fromkeys(texts):
        short = text if len(text) <= most else f"{text[:head]}…{text[len(text) - (most - head - 1) :]}"
        number = 2
        while short in short_texts.values():
            short, number = f"{text[:head]}… ({number})", number + 1
        short_texts[text] = short
    return [short_texts[text] for text in texts]


def legend_beside(figure: Any, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Add a legend to the right of all panels, in several columns if it is tall; the figure grows to fit it."""
    extent = _legend(figure, handles, names, columns=1)
    columns = math.ceil(extent.height / figure.dpi / TALL)
    if columns > 1:
        figure.legends[-1].remove()
        extent = _legend(figure, handles, names, columns=columns)
    wide, high = figure.get_size_inches()
    figure.set_size_inches(wide + extent.width / figure.dpi, max(high, extent.height / figure.dpi + 0.2))


def _legend(figure: Any, handles: Sequence[Any], names: Sequence[str], *, columns: int) -> Any:
    """Add the legend and return its extent in pixels."""
    legend = figure.legend(
        handles, names, loc="outside right center", ncols=columns, fontsize=7, frameon=False, handlelength=3.2
    )
    return legend.get_window_extent(figure.canvas.get_renderer())
