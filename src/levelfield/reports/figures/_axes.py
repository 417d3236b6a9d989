"""Limits, scales and ticks of axes: a small difference must look small."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

LEAST = 0.2  # of the largest value: minimum length of an axis, so that 2 % fill at most a tenth of it
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
    span = max((1 + 2 * MARGIN) * (high - low), LEAST * max(abs(low), abs(high))) or 1.0
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


def write_plainly(one: Any) -> None:
    """Label ticks with plain numbers, without powers or offsets. A logarithmic axis labels 1, 2 and 5."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    if one.get_scale() == "log":
        low, high = one.get_view_interval()
        near = high / low < 1000
        one.set_major_locator(LogLocator(subs=(1, 2, 5) if near else (1,), numticks=12))
        one.set_minor_locator(NullLocator())
    else:
        one.set_major_locator(MaxNLocator(5))
    one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def spacing(values: Sequence[Any]) -> Spacing:
    """The scale of a sweep's axis.

    Numbers are drawn to scale, geometric ones on a logarithmic axis; words, and numbers that would overlap, are evenly
    spaced.

    >>> spacing([1, 2, 3]), spacing([64, 128, 512]), spacing([0, 0.001, 0.1, 1]), spacing(["25x4", "50x2"])
    ('linear', 'log', 'even', 'even')
    """
    if not all(is_number(value) for value in values):
        return "even"
    numbers = sorted({float(value) for value in values})
    if len(numbers) < 2:
        return "linear"
    scale: Spacing = "log" if numbers[0] > 0 and _is_geometric(numbers) else "linear"
    steps = np.diff(np.log(numbers) if scale == "log" else numbers)
    return "even" if steps.min() < NARROW * steps.sum() else scale


def ordered(values: list[Any]) -> list[Any]:
    """Unique values, sorted: numbers by size, words in natural order.

    >>> ordered(["25x4", "100", "50x2", "25x4"])
    ['25x4', '50x2', '100']
    """
    different = list({str(value): value for value in values}.values())
    if all(is_number(value) for value in different):
        return sorted(different)
    return sorted(
        different,
        key=lambda value: [
            (not part.isdecimal(), int(part) if part.isdecimal() else 0, part)
            for part in re.split(r"(\d+)", str(value))
            if part
        ],
    )


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_geometric(numbers: list[float]) -> bool:
    """Whether values span a factor of four or more, with steps more even as ratios than as differences."""
    steps, ratios = np.diff(numbers), np.diff(np.log(numbers))
    if len(numbers) == 2:
        return numbers[1] >= WIDE * numbers[0]
    return bool(numbers[-1] >= 4 * numbers[0] and ratios.std() / ratios.mean() < steps.std() / steps.mean())
