"""Score against cost, with the Pareto front: rows that no other row beats at the same or lower cost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from levelfield.errors import BadInput
from levelfield.reports.figures._axes import limits, span_costs
from levelfield.reports.figures._drawing import GRID, legend_beside, panels, save, shortened
from levelfield.reports.figures._placing import Points, number_points
from levelfield.reports.figures._registry import nothing_trains, register
from levelfield.reports.figures._rows import Drawn, by_test_set, ends, errors
from levelfield.studies.leaderboard.rows import COSTS, OF_USE, front

AXES = {
    "seconds": ("training, seconds", 1.0),
    "peak_bytes": ("peak memory, MB", 1e-6),
    "rows_through_trunk": ("rows through the trunk", 1.0),
    "operations": ("operations per image, millions", 1e-6),
}


@register(
    "cost",
    "the first metric against training time, memory, rows through the trunk and operations per image, with the front",
    why_not=nothing_trains,
)
def draw_cost(rows: list[Drawn], metric: str, path: Path) -> Path:
    """One panel for each cost that is known and differs between rows, one line of panels for each test set.

    The front is a staircase. Rows that train nothing have no cost here: the front starts at the level of the best of
    them. Rows of one method share a style; if there are several, all rows are numbered.
    """
    sets = by_test_set(rows)
    paid = {cost: [getattr(row.row, cost) for row in rows if _known(row, cost)] for cost in COSTS}
    costs = [cost for cost, values in paid.items() if values and (cost == "seconds" or len(set(values)) > 1)]
    if not costs:
        raise BadInput("The figure 'cost' needs a row that was trained; this study has none.")
    figure, axes = panels(len(sets), len(costs), width=0.4 + 3.4 * len(costs), height=0.5 + 3.0 * len(sets))
    named: dict[str, Any] = {}
    for line, (test_set, own) in zip(axes, sets.items(), strict=True):
        for axis, cost in zip(line, costs, strict=True):
            named = _draw_panel(axis, own, cost, metric) | named
            axis.set_xlabel(AXES[cost][0])
            axis.set_ylim(limits(value for row in own for value in ends(row.cell(metric))))
        line[0].set_ylabel(metric)
        line[0].set_title(test_set if len(sets) > 1 else "", loc="left")
    numbers = _numbers(rows)
    order = [*dict.fromkeys(_name(row) for row in rows), *named]  # in leaderboard order
    entries = [name for name in dict.fromkeys(order) if name in named]
    short = [
        f"{numbers[name]}  {text}" if name in numbers else text
        for name, text in zip(entries, shortened(entries), strict=True)
    ]
    legend_beside(figure, [named[name] for name in entries], short)
    if numbers:
        number_points(
            [
                _points(axis, own, cost, metric, numbers)
                for line, own in zip(axes, sets.values(), strict=True)
                for axis, cost in zip(line, costs, strict=True)
            ]
        )
    return save(figure, path)


def _draw_panel(axis: Any, rows: list[Drawn], cost: str, metric: str) -> dict[str, Any]:
    """Draw one panel; returns the legend entries by name."""
    axis.grid(axis="y", color=GRID)
    points = {row.row.label: row for row in rows if _known(row, cost)}
    if not points:
        return {}
    paid = {label: _paid(row, cost) for label, row in points.items()}
    named: dict[str, Any] = {}
    for label, row in points.items():
        cell = row.cell(metric)
        named[_name(row)] = axis.errorbar(
            paid[label],
            cell.mean,
            yerr=errors(cell),
            linestyle="none",
            capsize=2,
            elinewidth=0.8,
            ecolor=(row.style.colour, 0.45),
            label=_name(row),
            **row.style.points,
        )
    span_costs(axis, list(paid.values()))
    return named | _draw_front(axis, rows, paid, cost, metric)


def _draw_front(axis: Any, rows: list[Drawn], paid: dict[str, float], cost: str, metric: str) -> dict[str, Any]:
    """Draw the front as steps: up where a costlier row is better, flat in between and to the edge."""
    best = front([row.row for row in rows], cost, metric)
    shown = {row.row.label: row for row in rows}
    means = {label: row.cell(metric).mean for label, row in shown.items()}
    steps = [label for label in best if label in paid]
    free = [label for label in best if label not in paid]
    named: dict[str, Any] = {}
    if free:
        row = shown[free[0]]
        name = f"{_name(row)} (trains nothing)"
        named[name] = axis.axhline(
            means[free[0]], color=row.style.colour, linewidth=1, linestyle=row.style.line, zorder=0, label=name
        )
    if steps:
        across, heights = [paid[label] for label in steps], [means[label] for label in steps]
        start = means[free[0]] if free else heights[0]
        (named["front"],) = axis.step(
            [across[0], *across, axis.get_xlim()[1]],
            [start, *heights, heights[-1]],
            where="post",
            color="#555555",
            linewidth=1,
            zorder=0,
            label="front",
        )
    return named


def _numbers(rows: list[Drawn]) -> dict[str, int]:
    """Row numbers by name, in leaderboard order, if some rows share a style."""
    names = list(dict.fromkeys(_name(row) for row in rows))
    looks = Counter(row.style for row in {_name(row): row for row in rows if row.row.trained}.values())
    return {name: number for number, name in enumerate(names, 1)} if max(looks.values(), default=0) > 1 else {}


def _points(axis: Any, rows: list[Drawn], cost: str, metric: str, numbers: dict[str, int]) -> Points:
    own = [row for row in rows if _known(row, cost)]
    at = [(_paid(row, cost), row.cell(metric).mean) for row in own]
    return Points(axis, at, [str(numbers[_name(row)]) for row in own], [row.style.colour for row in own])


def _name(row: Drawn) -> str:
    """The name of the row without its test set, which the panels name."""
    return row.row.label.replace(f" [data={row.row.variation.get('data')}]", "")


def _known(row: Drawn, cost: str) -> bool:
    return (row.row.trained or cost in OF_USE) and getattr(row.row, cost) is not None


def _paid(row: Drawn, cost: str) -> float:
    return float(AXES[cost][1] * getattr(row.row, cost))
