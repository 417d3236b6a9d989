"""How good the rows are against what they cost, and the front: what no other row beats for as much or less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from levelfield.errors import BadInput
from levelfield.reports.figures._drawing import colour, marker, panels, save
from levelfield.reports.figures._rows import Drawn, errors
from levelfield.studies.cost import COSTS, front

AXES = {
    "seconds": ("training, seconds", 1.0),
    "peak_bytes": ("peak memory, MB", 1e-6),
    "rows_through_trunk": ("rows through the trunk", 1.0),
}
WIDE = 10.0  # costs that are so many times apart are drawn on a logarithmic axis


def draw_cost(rows: list[Drawn], metric: str, path: Path) -> Path:
    """A panel for each cost that is known and not the same for all, a line of panels for each test set.

    The front is a staircase. Rows that train nothing cost nothing here: the best of them is a level that the front
    starts from.
    """
    sets = list(dict.fromkeys(row.row.test_set for row in rows))
    paid = {cost: [getattr(row.row, cost) for row in rows if _known(row, cost)] for cost in COSTS}
    costs = [cost for cost, values in paid.items() if values and (cost == "seconds" or len(set(values)) > 1)]
    if not costs:
        raise BadInput("No row trained anything: nothing has a cost.")
    figure, axes = panels(len(sets), len(costs), width=0.4 + 3.6 * len(costs), height=0.9 + 3.1 * len(sets))
    names = list(dict.fromkeys(_name(row) for row in rows))
    for line, test_set in zip(axes, sets, strict=True):
        own = [row for row in rows if row.row.test_set == test_set]
        for axis, cost in zip(line, costs, strict=True):
            _draw_panel(axis, own, cost, metric, names)
            axis.set_xlabel(AXES[cost][0], fontsize=9)
        line[0].set_ylabel(metric, fontsize=9)
        line[0].set_title(test_set if len(sets) > 1 else "", fontsize=9, loc="left")
    named: dict[str, Any] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    figure.legend(named.values(), named, loc="outside lower center", ncols=2 * len(costs), fontsize=7, frameon=False)
    return save(figure, path)


def _draw_panel(axis: Any, rows: list[Drawn], cost: str, metric: str, names: list[str]) -> None:
    points = {row.row.label: row for row in rows if _known(row, cost)}
    if not points:
        return
    paid = {label: AXES[cost][1] * getattr(row.row, cost) for label, row in points.items()}
    for label, row in points.items():
        cell, number = row.cell(metric), names.index(_name(row))
        axis.errorbar(
            paid[label], cell.mean, yerr=errors(cell), fmt=marker(number), color=colour(number), capsize=2,
            markersize=5, elinewidth=0.8, label=_name(row),
        )  # fmt: skip
    if max(paid.values()) > WIDE * min(paid.values()) > 0:
        axis.set_xscale("log")
    else:
        axis.margins(x=0.15)
    _draw_front(axis, rows, paid, cost, metric)
    axis.grid(axis="y", color="#eeeeee")
    axis.set_axisbelow(True)


def _draw_front(axis: Any, rows: list[Drawn], paid: dict[str, float], cost: str, metric: str) -> None:
    """Up where a dearer row is better, level in between, and level to the edge."""
    best = front([row.row for row in rows], cost, metric)
    shown = {row.row.label: row for row in rows}
    means = {label: row.cell(metric).mean for label, row in shown.items()}
    steps = [label for label in best if label in paid]
    free = [label for label in best if label not in paid]
    limits = axis.get_xlim()
    if free:
        name = f"{_name(shown[free[0]])} (trains nothing)"
        axis.axhline(means[free[0]], color="#888888", linewidth=1, linestyle=":", zorder=0, label=name)
    if steps:
        across, heights = [paid[label] for label in steps], [means[label] for label in steps]
        start = means[free[0]] if free else heights[0]
        axis.step([across[0], *across, limits[1]], [start, *heights, heights[-1]], where="post",
                  color="#555555", linewidth=1.3, zorder=0, label="front")  # fmt: skip
    axis.set_xlim(limits)


def _name(row: Drawn) -> str:
    """Of the row, whatever it was tested on: the panels say that."""
    return row.row.label.replace(f" [data={row.row.variation.get('data')}]", "")


def _known(row: Drawn, cost: str) -> bool:
    return row.row.trained and getattr(row.row, cost) is not None
