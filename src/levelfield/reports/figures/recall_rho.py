"""roth2020, figures 9 and 10: score against the spectral decay of the training embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from levelfield.errors import BadInput
from levelfield.reports.figures._axes import limits
from levelfield.reports.figures._drawing import panels, plainly, save
from levelfield.reports.figures._labels import shortened
from levelfield.reports.figures._placing import Points, name_points
from levelfield.reports.figures._possible import nothing_trains
from levelfield.reports.figures._registry import register
from levelfield.reports.figures._rows import Drawn, by_test_set, ends, errors


@register(
    "recall-rho", "the first metric against the spectral decay of the training embeddings", why_not=nothing_trains
)
@plainly
def draw_recall_rho(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw a point for each row, hollow with a regulariser; an arrow points to it from the same method without it.

    Every test set has a panel.
    """
    sets = by_test_set([row for row in rows if row.rho is not None and np.isfinite(row.rho)])
    if not sets:
        raise BadInput("The figure 'recall-rho' needs a row that was trained; this study has none.")
    figure, axes = panels(1, len(sets), width=6.4 * len(sets), height=4.4)
    for axis, (test_set, own) in zip(axes[0], sets.items(), strict=True):
        _draw_points(axis, own, metric)
        axis.set_title("; ".join(filter(None, [test_set if len(sets) > 1 else "", _title(own, metric)])))
    return save(figure, path)


def _draw_points(axis: Any, shown: list[Drawn], metric: str) -> None:
    for row in shown:
        cell, rho = row.cell(metric), row.rho_cell
        assert rho is not None
        bars = {"xerr": errors(rho), "yerr": errors(cell)}
        axis.errorbar(rho.mean, cell.mean, **bars, fmt="none", ecolor=row.style.colour, alpha=0.35, capsize=2)
        axis.plot(rho.mean, cell.mean, linestyle="none", label=row.row.label, **row.style.points)
    for row in shown:
        plain = [other for other in shown if other.pair == row.pair and not other.regularised]
        if row.regularised and plain:
            start = (plain[0].rho, plain[0].cell(metric).mean)
            arrow = {"arrowstyle": "->", "color": "#888888", "shrinkA": 4, "shrinkB": 4}
            axis.annotate("", (row.rho, row.cell(metric).mean), xytext=start, arrowprops=arrow)
    axis.set(xlabel="rho of the training embeddings (larger: more compressed)", ylabel=metric)
    low, high = limits(value for row in shown if row.rho_cell for value in ends(row.rho_cell))
    axis.set_xlim(low - 0.06 * (high - low), high + 0.12 * (high - low))  # room for names
    axis.set_ylim(limits(value for row in shown for value in ends(row.cell(metric))))
    at = [(row.rho or 0.0, row.cell(metric).mean) for row in shown]
    names = shortened([row.row.label for row in shown])
    name_points(Points(axis, at, names, [row.style.colour for row in shown]))


def correlation(shown: list[Drawn], metric: str) -> float | None:
    """Between rho and the metric over the rows; None with fewer than three."""
    rho, value = np.array([(row.rho, row.cell(metric).mean) for row in shown]).T
    return float(np.corrcoef(rho, value)[0, 1]) if len(rho) > 2 and rho.std() and value.std() else None


def _title(shown: list[Drawn], metric: str) -> str:
    found = correlation(shown, metric)
    parts = ["hollow: with a regulariser"] if any(row.regularised for row in shown) else []
    parts += [] if found is None else [f"correlation over {len(shown)} rows: {found:z.2f}"]
    return "; ".join(parts)
