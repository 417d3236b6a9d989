"""002, figures 9 and 10: how good a row is against the spectral decay of its training embeddings."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from levelfield.errors import BadInput
from levelfield.reports.figures._drawing import colour, marker, panels, save
from levelfield.reports.figures._rows import Drawn, errors


def draw_recall_rho(rows: list[Drawn], metric: str, path: Path) -> Path:
    """One point for each row, hollow with a regulariser; an arrow leads to it from the same method without."""
    shown = [(row, rho) for row in rows if (rho := row.rho) is not None and np.isfinite(rho)]
    if not shown:
        raise BadInput("No row has a spectral decay of its training embeddings: nothing was trained.")
    figure, axes = panels(1, 1, width=6.4, height=4.4)
    axis = axes[0, 0]
    names = list(dict.fromkeys(row.method for row in rows))
    for row, rho in shown:
        cell, number = row.cell(metric), names.index(row.method)
        axis.errorbar(rho, cell.mean, yerr=errors(cell), fmt="none", ecolor=colour(number), alpha=0.35, capsize=2)
        fill = "white" if row.regularised else colour(number)
        axis.plot(rho, cell.mean, marker(number), color=fill, markeredgecolor=colour(number), label=row.row.label)
        side = (5, -9) if _is_crowded(row, rho, shown, metric) else (5, 4)
        axis.annotate(row.row.label, (rho, cell.mean), xytext=side, textcoords="offset points", fontsize=7)
    for row, rho in shown:
        plain = [(other, its) for other, its in shown if other.pair == row.pair and not other.regularised]
        if row.regularised and plain:
            start = (plain[0][1], plain[0][0].cell(metric).mean)
            arrow = {"arrowstyle": "->", "color": "#888888", "shrinkA": 4, "shrinkB": 4}
            axis.annotate("", (rho, row.cell(metric).mean), xytext=start, arrowprops=arrow)
    axis.set(xlabel="rho of the training embeddings (larger: more compressed)", ylabel=metric)
    axis.margins(x=0.18)
    axis.set_title(_title(shown, metric), fontsize=9)
    return save(figure, path)


def correlation(shown: list[tuple[Drawn, float]], metric: str) -> float | None:
    """Between rho and the metric over the rows; None with fewer than three."""
    rho, value = np.array([(rho, row.cell(metric).mean) for row, rho in shown]).T
    return float(np.corrcoef(rho, value)[0, 1]) if len(rho) > 2 and rho.std() and value.std() else None


def _is_crowded(row: Drawn, rho: float, shown: list[tuple[Drawn, float]], metric: str) -> bool:
    """Whether a better row stands so near that its label would lie on this one's."""
    values = [one.cell(metric).mean for one, _ in shown]
    wide, high = np.ptp([its for _, its in shown]), np.ptp(values)
    own = row.cell(metric).mean
    return any(
        one is not row and abs(its - rho) < 0.25 * wide and 0 <= one.cell(metric).mean - own < 0.06 * high
        for one, its in shown
    )


def _title(shown: list[tuple[Drawn, float]], metric: str) -> str:
    found = correlation(shown, metric)
    told = "" if found is None else f"; correlation over {len(shown)} rows: {found:.2f}"
    return f"hollow: with a regulariser{told}"
