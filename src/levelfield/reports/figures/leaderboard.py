"""Every row of the leaderboard with its interval: roth2020, tables 7 to 9, as a figure."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from levelfield.reports.figures._drawing import GRID, limits, panels, save, shortened
from levelfield.reports.figures._registry import register
from levelfield.reports.figures._rows import Drawn, by_test_set, ends, errors

MAX_LABEL_LENGTH = 48
TIED = "#dcebf5"
TIES = "not distinguishable from the best row"
LINE = 0.26  # inches of a row


@register("leaderboard", "means and intervals of all rows, best on top; ties with the best are shaded")
def draw_leaderboard(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Means and intervals, best on top, a panel for each test set. Rows that tie with the best are shaded."""
    sets = by_test_set(rows)
    names = dict(zip(labels := [row.row.label for row in rows], shortened(labels, MAX_LABEL_LENGTH), strict=True))
    width = 4.4 + 0.062 * max(map(len, names.values()))
    heights = tuple(0.5 + LINE * len(part) for part in sets.values())
    figure, axes = panels(len(sets), 1, width=width, height=0.4 + sum(heights), heights=heights)
    for axis, (test_set, part) in zip(axes[:, 0], sets.items(), strict=True):
        draw_rows(axis, part, [names[row.row.label] for row in part], metric)
        for line, row in enumerate(part):
            if row.row.tied_with_best and len(part) > 1:
                axis.axhspan(line - 0.5, line + 0.5, color=TIED, linewidth=0, zorder=0)
        axis.set_title(test_set if len(sets) > 1 else "", loc="left")
    axes[-1, 0].set_xlabel(metric)
    _explain(figure, rows, metric)
    return save(figure, path)


def draw_rows(axis: Any, rows: list[Drawn], names: list[str], metric: str) -> None:
    """Rows of points with their intervals, the first on top."""
    for line, row in enumerate(rows):
        cell, look = row.cell(metric), row.style.points
        axis.errorbar(cell.mean, line, xerr=errors(cell), linestyle="none", capsize=2, **look)
    axis.set_yticks(range(len(rows)), names, fontsize=8)
    axis.set_xlim(limits(value for row in rows for value in ends(row.cell(metric))))
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.grid(axis="x", color=GRID)


def _explain(figure: Any, rows: list[Drawn], metric: str) -> None:
    """The legend. Without a test it does not mention ties."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    def sample(rows: Iterable[Drawn]) -> Any:
        return Line2D([], [], linestyle="none", **next(iter(rows)).style.points)

    handles: dict[str, Any] = {}
    tied, sets = sum(bool(row.row.tied_with_best) for row in rows), {row.row.test_set for row in rows}
    if tied and len(rows) > 1:
        alone = tied == len(sets)  # the best ties with itself
        handles["the best row; no other ties with it" if alone else TIES] = Patch(color=TIED)
    if any(errors(row.cell(metric)) for row in rows):
        handles["95 % interval"] = Line2D([], [], color="#555555", marker="|", markersize=6)
    if any(not row.row.trained for row in rows):
        handles["trains nothing"] = sample(row for row in rows if not row.row.trained)
    if any(row.style.hollow for row in rows):
        handles["hollow: with a regulariser"] = sample(row for row in rows if row.style.hollow)
    if handles:
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=2, fontsize=7, frameon=False)
