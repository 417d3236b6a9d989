"""Correlations over rows between all metrics of a study and the spectral decay (roth2020, section 5)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from levelfield.errors import BadInput
from levelfield.reports.figures._drawing import panels, plainly, save
from levelfield.reports.figures._possible import nothing_trains
from levelfield.reports.figures._registry import register
from levelfield.reports.figures._rows import Drawn, by_test_set

FEWEST = 3  # rows
RHO = "rho (training)"


@register(
    "correlations",
    "the correlation over trained rows of every metric with every other, and with rho of the training embeddings",
    why_not=nothing_trains,
)
@plainly
def draw_correlations(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw a matrix for each test set. A metric that is equal in all rows has no correlation: its fields are empty."""
    trained = by_test_set([row for row in rows if row.rho is not None])
    tables = {name: table for name, own in trained.items() if len(table := _table(own)) >= FEWEST}
    if not tables:
        raise BadInput(f"The figure 'correlations' needs {FEWEST} trained rows on the same test set.")
    side = 1.6 + 0.5 * max(table.shape[1] for table in tables.values())
    figure, axes = panels(1, len(tables), width=side * len(tables), height=side + 0.6)  # with room for the names
    for axis, (name, table) in zip(axes[0], tables.items(), strict=True):
        with np.errstate(invalid="ignore", divide="ignore"):
            found = np.corrcoef(table, rowvar=False)
        axis.imshow(found, cmap="RdBu_r", vmin=-1, vmax=1)
        for (down, across), value in np.ndenumerate(found):
            text = "" if np.isnan(value) else f"{value:z.2f}"
            axis.text(across, down, text, ha="center", va="center", fontsize=7, color=_ink(value))
        names = [*trained[name][0].row.cells, RHO]
        axis.set_xticks(range(len(names)), names, rotation=90)
        axis.set_yticks(range(len(names)), names)
        axis.set_title(f"{name}: correlation over {len(table)} rows")
    return save(figure, path)


def _table(rows: list[Drawn]) -> np.ndarray:
    """The metrics of every row, mean over seeds, and rho last; without rows that have an infinite one."""
    values = np.array([[*(cell.mean for cell in row.row.cells.values()), row.rho] for row in rows], dtype=float)
    finite: np.ndarray = values[np.isfinite(values).all(axis=1)]
    return finite


def _ink(value: float) -> str:
    return "white" if abs(value) > 0.6 else "black"  # legible on dark and light fields
