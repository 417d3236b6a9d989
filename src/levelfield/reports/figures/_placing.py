"""Place names beside the points of a scatter plot, without overlaps and within the axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

SIZE = 7
NEAR = 6.0  # points between the centre of a marker and its name
FAR = tuple(NEAR + 8 * step for step in range(1, 13))  # further away, with a line to the point
AROUND = [(math.cos(turn), math.sin(turn)) for turn in np.arange(16) * math.pi / 8]
SIDES = [AROUND[k] for k in (0, 8, 2, 14, 6, 10, 4, 12)]  # right, left, the corners, above, below
LEADER = 16.0  # points between the axes and a column of names
HALOED = 60  # names with a white outline; more of them are slow to draw
GROWTH, MOST_GROWTH = 1.25, 8


class Box(NamedTuple):
    """A rectangle in pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps_any(self, others: np.ndarray) -> bool:
        """Whether it overlaps one of the boxes (n, 4)."""
        left, bottom, right, top = others.T
        return bool(((self.left < right) & (left < self.right) & (self.bottom < top) & (bottom < self.top)).any())

    def within(self, frame: Box) -> bool:
        return (
            self.left >= frame.left
            and self.bottom >= frame.bottom
            and self.right <= frame.right
            and self.top <= frame.top
        )


@dataclass(frozen=True)
class Points:
    """Points of one panel, each with its name and colour. Names are placed in this order."""

    axis: Any
    at: Sequence[tuple[float, float]]
    names: Sequence[str]
    colours: Sequence[str]

    @property
    def pixels(self) -> np.ndarray:
        pixels: np.ndarray = self.axis.transData.transform(np.asarray(self.at, dtype=float).reshape(-1, 2))
        return pixels

    @property
    def frame(self) -> Box:
        return Box(*self.axis.get_window_extent().extents)

    @cached_property
    def sizes(self) -> list[tuple[float, float]]:
        """Width and height of each name in pixels, whatever the size of the figure."""
        sizes = []
        for name in self.names:
            text = self.axis.text(0, 0, name, fontsize=SIZE)
            extent = text.get_window_extent(self.axis.figure.canvas.get_renderer())
            text.remove()
            sizes.append((extent.width, extent.height))
        return sizes


def name_points(points: Points) -> None:
    """Write a name beside each point of the figure's only panel, or in a column right of the axes if they do not fit.

    Call it last: it needs the final scale. The figure grows by the column.
    """
    points.axis.figure.draw_without_rendering()  # computes the layout
    offsets = _offsets(points, (NEAR,), SIDES)
    if offsets is None:
        _write_column(points)
    else:
        _write_around(points, offsets)


def number_points(several: Sequence[Points]) -> None:
    """Write short names near the points of several panels. The figure grows until all of them fit."""
    figure = several[0].axis.figure
    for _ in range(MOST_GROWTH):
        figure.draw_without_rendering()
        all_offsets = [_offsets(points, (NEAR, *FAR), AROUND) for points in several]
        if None not in all_offsets:
            break
        figure.set_size_inches(GROWTH * figure.get_size_inches())
    for points, offsets in zip(several, all_offsets, strict=True):
        if offsets is not None:
            _write_around(points, offsets)


def _offsets(points: Points, reaches: Sequence[float], sides: Sequence[tuple[float, float]]) -> list[Any] | None:
    """The offset of each name's centre from its point, in points; None if any name does not fit."""
    scale = points.axis.figure.dpi / 72
    frame, at, half = points.frame, points.pixels, NEAR * scale / 2
    taken = np.concatenate((at - half, at + half), axis=1)  # one box per row
    offsets = []
    for (x, y), (wide, high) in zip(at, points.sizes, strict=True):
        for reach, (right, up) in itertools.product(reaches, sides):
            # the name touches a circle around the point
            across, upward = right * (reach * scale + wide / 2), up * (reach * scale + high / 2)
            box = Box(x + across - wide / 2, y + upward - high / 2, x + across + wide / 2, y + upward + high / 2)
            if box.within(frame) and not box.overlaps_any(taken):
                taken = np.concatenate((taken, [box]))
                offsets.append((across / scale, upward / scale))
                break
        else:
            return None
    return offsets


def _write_around(points: Points, offsets: Sequence[tuple[float, float]]) -> None:
    sizes = points.sizes
    scale = points.axis.figure.dpi / 72
    for k, (across, upward) in enumerate(offsets):
        off = max(abs(across) - sizes[k][0] / scale / 2, abs(upward) - sizes[k][1] / scale / 2)
        _write(points, k, (across, upward), "offset points", "center", leads=off > NEAR + 1)


def _write_column(points: Points) -> None:
    figure, sizes = points.axis.figure, points.sizes
    gap = 1.15 * max(high for _, high in sizes)
    column = max(wide for wide, _ in sizes) / figure.dpi + (LEADER + 8) / 72
    wide, high = figure.get_size_inches()
    around = high - (points.frame.top - points.frame.bottom) / figure.dpi
    figure.set_size_inches(wide + column, max(high, around + (len(sizes) + 1) * gap / figure.dpi))
    figure.get_layout_engine().set(rect=(0, 0, wide / (wide + column), 1))
    figure.draw_without_rendering()
    at, frame = points.pixels, points.frame
    order = sorted(range(len(at)), key=lambda k: (at[k][1], at[k][0], k))
    heights = _apart([float(at[k][1]) for k in order], gap, frame.bottom + gap / 2, frame.top - gap / 2)
    left = (frame.right + LEADER * figure.dpi / 72) / figure.bbox.width
    for k, height in zip(order, heights, strict=True):
        _write(points, k, (left, height / figure.bbox.height), "figure fraction", "left", leads=True)


def _apart(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Positions in the order of `wanted`, as near to it as possible with `gap` between them.

    >>> _apart([1.0, 1.0, 5.0], 2.0, 0.0, 6.0), _apart([5.0, 5.0, 5.0], 2.0, 0.0, 6.0)
    ([1.0, 3.0, 5.0], [2.0, 4.0, 6.0])
    """
    positions: list[float] = []
    for value in wanted:
        positions.append(max(value, positions[-1] + gap if positions else low))
    for k in reversed(range(len(positions))):
        positions[k] = min(positions[k], positions[k + 1] - gap if k + 1 < len(positions) else high)
    return positions


def _write(points: Points, k: int, position: tuple[float, float], unit: str, ha: str, *, leads: bool) -> None:
    from matplotlib.patheffects import withStroke

    leader = {"arrowstyle": "-", "color": points.colours[k], "linewidth": 0.5, "alpha": 0.7, "shrinkA": 1, "shrinkB": 3}
    leader["relpos"] = (0, 0.5) if ha == "left" else (0.5, 0.5)
    text = points.axis.annotate(
        points.names[k],
        points.at[k],
        xytext=position,
        textcoords=unit,
        fontsize=SIZE,
        ha=ha,
        va="center",
        color="#222222",
        annotation_clip=False,
        arrowprops=leader if leads else None,
    )
    if len(points.names) <= HALOED:
        text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])  # keeps text legible over lines
    text.set_in_layout(False)  # its space is reserved: the axes stay in place
