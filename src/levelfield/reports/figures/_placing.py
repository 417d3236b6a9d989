"""Place names beside the points of a scatter plot, without overlaps and within the axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from levelfield.reports.figures._drawing import shortened

SIZE = 7
NEAR = 6.0  # points between the centre of a marker and its name
REACHES = tuple(NEAR + 8 * step for step in range(13))  # further away, with a line to the point
AROUND = [(math.cos(turn), math.sin(turn)) for turn in np.arange(16) * math.pi / 8]
SIDES = [AROUND[k] for k in (0, 8, 2, 14, 6, 10, 4, 12)]  # right, left, the corners, above, below
HALOED = 60  # names with a white outline; more of them are slow to draw
GROWTH, MOST_GROWTH = 1.25, 8


@dataclass(frozen=True)
class Points:
    """Points of one panel, each with its name and colour. Names are placed in this order."""

    axis: Any
    at: Sequence[tuple[float, float]]
    names: Sequence[str]
    colours: Sequence[str]

    @property
    def scale(self) -> float:
        """Pixels per point."""
        return float(self.axis.figure.dpi / 72)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Width and height (n, 2) of each name in pixels, whatever the size of the figure."""
        sizes = []
        for name in self.names:
            text = self.axis.text(0, 0, name, fontsize=SIZE)
            extent = text.get_window_extent(self.axis.figure.canvas.get_renderer())
            text.remove()
            sizes.append((extent.width, extent.height))
        return np.array(sizes).reshape(-1, 2)


def overlaps(box: np.ndarray, others: np.ndarray) -> bool:
    """Whether a rectangle (left, bottom, right, top) overlaps one of the others (n, 4).

    >>> overlaps(np.array([0, 0, 2, 2]), np.array([[1, 1, 3, 3]])), overlaps(np.array([0, 0, 2, 2]), np.zeros((0, 4)))
    (True, False)
    """
    return bool(((box[:2] < others[:, 2:]) & (others[:, :2] < box[2:])).all(axis=1).any())


def name_points(several: Sequence[Points]) -> bool:
    """Write shortened names close to the points of all panels if they fit; returns whether they do.

    Call it last: it needs the final scale.
    """
    several = [replace(points, names=shortened(points.names)) for points in several]
    several[0].axis.figure.draw_without_rendering()  # computes the layout
    return _write(several, [_offsets(points, (NEAR,), SIDES) for points in several])


def number_points(several: Sequence[Points], numbers: Mapping[str, str]) -> None:
    """Write the number of its name near each point of all panels. The figure grows until they fit."""
    several = [replace(points, names=[numbers[name] for name in points.names]) for points in several]
    figure = several[0].axis.figure
    for _ in range(MOST_GROWTH):
        figure.draw_without_rendering()
        if _write(several, [_offsets(points, REACHES, AROUND) for points in several]):
            return
        figure.set_size_inches(GROWTH * figure.get_size_inches())


def _offsets(points: Points, reaches: Sequence[float], sides: Sequence[tuple[float, float]]) -> np.ndarray | None:
    """The offset of each name's centre from its point, in pixels (n, 2); None if any name does not fit."""
    frame, half = points.axis.get_window_extent().extents, NEAR * points.scale / 2
    at = points.axis.transData.transform(np.asarray(points.at, dtype=float).reshape(-1, 2))
    taken = np.concatenate((at - half, at + half), axis=1)
    offsets = []
    for point, size in zip(at, points.sizes, strict=True):
        for reach, side in itertools.product(reaches, sides):
            offset = np.array(side) * (reach * points.scale + size / 2)  # the name touches a circle around the point
            low, high = point + offset - size / 2, point + offset + size / 2
            inside = (low >= frame[:2]).all() and (high <= frame[2:]).all()
            if inside and not overlaps(box := np.concatenate((low, high)), taken):
                taken = np.concatenate((taken, [box]))
                offsets.append(offset)
                break
        else:
            return None
    return np.array(offsets).reshape(-1, 2)


def _write(several: Sequence[Points], all_offsets: Sequence[np.ndarray | None]) -> bool:
    """Write all names at their offsets, those far away with a line to the point; nothing if any does not fit."""
    from matplotlib.patheffects import withStroke

    known = [offsets for offsets in all_offsets if offsets is not None]
    if len(known) < len(all_offsets):
        return False
    outline = [withStroke(linewidth=2.5, foreground="white")]  # keeps text legible over lines
    for points, offsets in zip(several, known, strict=True):
        gaps = (np.abs(offsets) - points.sizes / 2).max(axis=1) / points.scale
        for name, colour, at, offset, gap in zip(points.names, points.colours, points.at, offsets, gaps, strict=True):
            line = {"arrowstyle": "-", "color": colour, "linewidth": 0.5, "alpha": 0.7, "shrinkA": 1, "shrinkB": 3}
            text = points.axis.annotate(
                name,
                at,
                xytext=tuple(offset / points.scale),
                textcoords="offset points",
                fontsize=SIZE,
                ha="center",
                va="center",
                color="#222222",
                annotation_clip=False,
                arrowprops={**line, "relpos": (0.5, 0.5)} if gap > NEAR + 1 else None,
            )
            text.set_path_effects(outline if len(points.names) <= HALOED else [])
            text.set_in_layout(False)  # the axes stay in place
    return True
