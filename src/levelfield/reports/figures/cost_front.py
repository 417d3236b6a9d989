"""Score against cost, with the Pareto front: rows that no other row beats at the same or lower cost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from levelfield.errors import BadInput
from levelfield.reports.figures._drawing import GRID, legend_beside, limits, panels, save, shortened, span_costs
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
    sets, paid = by_test_set(rows), {cost: {_paid(row, cost) for row in rows} - {None} for cost in COSTS}
    costs = [cost for cost, values in paid.items() if len(values) > (cost != "seconds")]
    if not costs:
        raise BadInput("The figure 'cost' needs a row that was trained; this study has none.")
    figure, axes = panels(len(sets), len(costs), width=0.4 + 3.4 * len(costs), height=0.5 + 3.0 * len(sets))
    handles: dict[str, Any] = {}
    drawn: list[Points] = []
    for line, (test_set, of_set) in zip(axes, sets.items(), strict=True):
        for axis, cost in zip(line, costs, strict=True):
            known = [(row, value) for row in of_set if (value := _paid(row, cost)) is not None]
            for row, value in known:
                cell, name = row.cell(metric), _name(row)
                bars = {"yerr": errors(cell), "capsize": 2, "elinewidth": 0.8, "ecolor": (row.style.colour, 0.45)}
                point = axis.errorbar(value, cell.mean, **bars, **row.style.points, linestyle="none", label=name)
                handles.setdefault(name, point)
            if known:
                span_costs(axis, [value for _, value in known])
                handles = _draw_front(axis, of_set, cost, metric) | handles
                at = [(value, row.cell(metric).mean) for row, value in known]
                names, colours = [_name(row) for row, _ in known], [row.style.colour for row, _ in known]
                drawn.append(Points(axis, at, names, colours))
            axis.set(xlabel=AXES[cost][0], ylim=limits(value for row in of_set for value in ends(row.cell(metric))))
            axis.grid(axis="y", color=GRID)
        line[0].set_ylabel(metric)
        line[0].set_title(test_set if len(sets) > 1 else "", loc="left")
    by_name = {_name(row): row for row in rows}  # in leaderboard order
    looks = Counter(row.style for row in by_name.values() if row.row.trained)
    shared = max(looks.values(), default=0) > 1
    numbers = {name: str(number) for number, name in enumerate(by_name, 1)} if shared else {}
    names = [name for name in dict.fromkeys([*by_name, *handles]) if name in handles]
    texts = [f"{numbers.get(name, '')}  {text}".strip() for name, text in zip(names, shortened(names), strict=True)]
    legend_beside(figure, [handles[name] for name in names], texts)
    if numbers:
        number_points(drawn, numbers)
    return save(figure, path)


def _draw_front(axis: Any, rows: list[Drawn], cost: str, metric: str) -> dict[str, Any]:
    """Draw the front as steps: up where a costlier row is better, flat in between and to the edge."""
    shown = {row.row.label: row for row in rows}
    best = [shown[label] for label in front([row.row for row in rows], cost, metric)]
    steps = [row for row in best if _paid(row, cost) is not None]
    free = [row for row in best if row not in steps]
    handles: dict[str, Any] = {}
    for row in free[:1]:
        name, look = f"{_name(row)} (trains nothing)", {"color": row.style.colour, "linestyle": row.style.line}
        handles[name] = axis.axhline(row.cell(metric).mean, linewidth=1, zorder=0, label=name, **look)
    if steps:
        across, heights = [_paid(row, cost) for row in steps], [row.cell(metric).mean for row in steps]
        across = [across[0], *across, axis.get_xlim()[1]]
        heights = [(free or steps)[0].cell(metric).mean, *heights, heights[-1]]
        look = {"color": "#555555", "linewidth": 1, "zorder": 0, "label": "front"}
        (handles["front"],) = axis.step(across, heights, where="post", **look)
    return handles


def _name(row: Drawn) -> str:
    """The name of the row without its test set, which the panels name."""
    return row.row.label.replace(f" [data={row.row.variation.get('data')}]", "")


def _paid(row: Drawn, cost: str) -> float | None:
    """The cost of a row in the unit of its axis; None if it is unknown, or the row trains nothing."""
    value = getattr(row.row, cost) if row.row.trained or cost in OF_USE else None
    return None if value is None else float(AXES[cost][1] * value)
