"""Every row of the leaderboard with its interval: 002, tables 7 to 9, as a picture."""

from __future__ import annotations

from pathlib import Path

from levelfield.reports.figures._drawing import colour, panels, save
from levelfield.reports.figures._rows import Drawn, errors


def draw_leaderboard(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Means and intervals, best on top; one colour for each objective."""
    figure, axes = panels(1, 1, width=7, height=0.6 + 0.28 * len(rows))
    axis = axes[0, 0]
    names = list(dict.fromkeys(row.method for row in rows))
    for place, row in enumerate(rows):
        cell, shade = row.cell(metric), colour(names.index(row.method))
        axis.errorbar(cell.mean, place, xerr=errors(cell), fmt="o", color=shade, capsize=2, markersize=5)
    axis.set(yticks=range(len(rows)), xlabel=metric)
    axis.set_yticklabels([row.row.label for row in rows], fontsize=8)
    axis.invert_yaxis()
    axis.grid(axis="x", color="#eeeeee")
    axis.set_axisbelow(True)
    return save(figure, path)
