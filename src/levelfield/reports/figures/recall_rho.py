"""roth2020, figures 9 and 10: score against the spectral decay of the training embeddings."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from levelfield.errors import BadInput
from levelfield.reports.figures._axes import limits
from levelfield.reports.figures._drawing import panels, plainly, save
from levelfield.reports.figures._labels import shortened
from levelfield.reports.figures._placing import Points, name_points
from levelfield.reports.figures._possible import nothing_trains
from levelfield.reports.figures._registry import register
from levelfield.reports.figures._rows import Drawn, ends, errors


@register(
    "recall-rho", "the first metric against the spectral decay of the training embeddings", why_not=nothing_trains
)
@plainly
def draw_recall_rho(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw a point for each row, hollow with a regulariser; an arrow points to it from the same method without it."""
    shown = [(row, rho) for row in rows if (rho := row.rho) is not None and np.isfinite(rho)]
    if not shown:
        raise BadInput("The figure 'recall-rho' needs a row that was trained; this study has none.")
    figure, axes = panels(1, 1, width=6.4, height=4.4)
    axis = axes[0, 0]
    for row, rho in shown:
        cell = row.cell(metric)
        axis.errorbar(rho, cell.mean, yerr=errors(cell), fmt="none", ecolor=row.style.colour, alpha=0.35, capsize=2)
        axis.plot(rho, cell.mean, linestyle="none", label=row.row.label, **row.style.points)
    for row, rho in shown:
        plain = [(other, its) for other, its in shown if other.pair == row.pair and not other.regularised]
        if row.regularised and plain:
            start = (plain[0][1], plain[0][0].cell(metric).mean)
            arrow = {"arrowstyle": "->", "color": "#888888", "shrinkA": 4, "shrinkB": 4}
            axis.annotate("", (rho, row.cell(metric).mean), xytext=start, arrowprops=arrow)
    axis.set(xlabel="rho of the training embeddings (larger: more compressed)", ylabel=metric)
    low, high = limits(rho for _, rho in shown)
    axis.set_xlim(low - 0.06 * (high - low), high + 0.12 * (high - low))  # room for names
    axis.set_ylim(limits(value for row, _ in shown for value in ends(row.cell(metric))))
    axis.set_title(_title(shown, metric))
    at = [(rho, row.cell(metric).mean) for row, rho in shown]
    names = shortened([row.row.label for row, _ in shown])
    name_points(Points(axis, at, names, [row.style.colour for row, _ in shown]))
    return save(figure, path)


def correlation(shown: list[tuple[Drawn, float]], metric: str) -> float | None:
    """Between rho and the metric over the rows; None with fewer than three."""
    rho, value = np.array([(rho, row.cell(metric).mean) for row, rho in shown]).T
    return float(np.corrcoef(rho, value)[0, 1]) if len(rho) > 2 and rho.std() and value.std() else None


def _title(shown: list[tuple[Drawn, float]], metric: str) -> str:
    found = correlation(shown, metric)
    told = ["hollow: with a regulariser"] if any(row.regularised for row, _ in shown) else []
    told += [] if found is None else [f"correlation over {len(shown)} rows: {found:z.2f}"]
    return "; ".join(told)
