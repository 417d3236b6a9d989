"""Shared by all figures: panels, scales and ticks, literal text, labels and legends that fit, files.

A small difference must look small on an axis.
"""

from __future__ import annotations

import functools
import io
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import numpy as np
from PIL import Image

from levelfield.errors import BadInput
from levelfield.files.writing import write_whole
from levelfield.settings import is_finite
from levelfield.wording import natural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "pdf", "svg")
GRID = "#eeeeee"
# user labels may contain `$`, which is not a formula; axes have no offsets such as "+6.8e2"; a file matplotlibrc in the
# working directory starts no TeX, which would run its preamble
PLAIN: Any = {"text.parse_math": False, "text.usetex": False, "axes.formatter.useoffset": False}
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
        content = io.BytesIO()
        figure.savefig(content, format="png", dpi="figure")
        few = Image.open(content).convert("RGB").quantize(256)  # without dithering, which tints white
        write_whole(path, lambda file: few.save(file, written, optimize=True, dpi=(figure.dpi, figure.dpi)))
    else:
        write_whole(path, lambda file: figure.savefig(file, format=written, dpi="figure"))
    return path


def check_name(path: Path) -> None:
    if path.suffix[1:].lower() not in FORMATS:
        raise BadInput(f"Cannot write a figure to '{path.name}': the file name must end with .png, .pdf or .svg.")


MAX_LABEL_LENGTH = 40  # characters of a label; longer labels are shortened in the middle
TALL = 9.0  # inches of a legend in one column


def shortened(texts: Sequence[str], most: int = MAX_LABEL_LENGTH) -> list[str]:
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

    def extent_of(columns: int) -> Any:
        look: Any = {"fontsize": 7, "frameon": False, "handlelength": 3.2}
        legend = figure.legend(handles, names, loc="outside right center", ncols=columns, **look)
        return legend.get_window_extent(figure.canvas.get_renderer())

    extent = extent_of(columns=1)
    columns = math.ceil(extent.height / figure.dpi / TALL)
    if columns > 1:
        figure.legends[-1].remove()
        extent = extent_of(columns)
    wide, high = figure.get_size_inches()
    figure.set_size_inches(wide + extent.width / figure.dpi, max(high, extent.height / figure.dpi + 0.2))


MIN_AXIS_SHARE = 0.2  # of the largest value: minimum length of an axis, so that 2 % fill at most a tenth of it
MARGIN = 0.06  # of the values' range, on each side
WIDE = 10.0  # costs with at least this ratio use a logarithmic axis
NARROW = 0.03  # of an axis: closer numbers are evenly spaced instead

Spacing = Literal["linear", "log", "even"]


def limits(values: Iterable[float | None], *, zero: bool = False) -> tuple[float, float]:
    """Limits of a linear axis. `zero`: start at 0, for quantities that are read as ratios.

    >>> limits([682, 694], zero=True)
    (0.0, 763.4)
    >>> [round(end, 3) for end in limits([0.600, 0.606])]  # not 0.5994 to 0.6066
    [0.542, 0.664]
    """
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    if zero and low >= 0:
        return 0.0, round(1.1 * high, 10) or 1.0
    shares = low >= 0 and high <= 1
    span = max((1 + 2 * MARGIN) * (high - low), MIN_AXIS_SHARE * max(abs(low), abs(high))) or 1.0
    middle = (low + high) / 2
    low, high = middle - span / 2, middle + span / 2
    if shares:  # shares are within 0 and 1; the margin keeps points on the edge visible
        high, low = (1.02, low - (high - 1.02)) if high > 1.02 else (high, low)
        low = max(low, -0.02)
    return low, high


def span_costs(axis: Any, values: Sequence[float]) -> None:
    """Scale the x axis for costs: from 0, or logarithmic if the values are far apart."""
    if max(values) > WIDE * min(values) > 0:
        axis.set_xscale("log")
        axis.set_xlim(min(values) / 1.5, max(values) * 1.5)
    else:
        axis.set_xlim(limits(values, zero=True))
    write_plainly(axis.xaxis)


def write_plainly(axis: Any) -> None:
    """Label ticks with plain numbers, without powers or offsets. A logarithmic axis labels 1, 2 and 5."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    if axis.get_scale() == "log":
        low, high = axis.get_view_interval()
        near = high / low < 1000
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if near else (1,), numticks=12))
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def spacing(values: Sequence[Any]) -> Spacing:
    """The scale of a sweep's axis.

    Numbers are drawn to scale, geometric ones on a logarithmic axis; words, and numbers that would overlap, are evenly
    spaced.

    >>> spacing([1, 2, 3]), spacing([64, 128, 512]), spacing([0, 0.001, 0.1, 1]), spacing(["25x4", "50x2"])
    ('linear', 'log', 'even', 'even')
    """
    if not all(is_finite(value) for value in values):
        return "even"
    numbers = sorted({float(value) for value in values})
    if len(numbers) < 2:
        return "linear"
    scale: Spacing = "linear"
    steps = np.diff(numbers)
    if numbers[0] > 0:  # geometric: a factor of four or more, with steps more even as ratios than as differences
        ratios = np.diff(np.log(numbers))
        even = ratios.std() / ratios.mean() < steps.std() / steps.mean() and numbers[-1] >= 4 * numbers[0]
        if numbers[1] >= WIDE * numbers[0] if len(numbers) == 2 else even:
            scale, steps = "log", ratios
    return "even" if steps.min() < NARROW * steps.sum() else scale


def ordered(values: list[Any]) -> list[Any]:
    """Unique values, sorted: numbers by size, words in natural order.

    >>> ordered(["25x4", "100", "50x2", "25x4"])
    ['25x4', '50x2', '100']
    """
    different = list({str(value): value for value in values}.values())
    numbers = all(is_finite(value) for value in different)
    return sorted(different, key=None if numbers else lambda value: natural(str(value)))
