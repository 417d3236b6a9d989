"""002, figures 11 and 13: recall beside the spectra of the training embeddings, of all of them and class by class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from levelfield.errors import BadInput
from levelfield.reports.figures._drawing import colour, panels, save
from levelfield.reports.figures._rows import Drawn, errors

TITLES = {"spectrum": "singular values, all training rows", "class_spectrum": "the same, mean over classes"}


def draw_spectra(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Means and two spectra; the same method with a regulariser has the same colour and a dashed line."""
    shown = [row for row in rows if row.rho is not None]
    if not shown:
        raise BadInput("No row has spectra of its training embeddings: nothing was trained.")
    pairs = list(dict.fromkeys(row.pair for row in shown))
    shown.sort(key=lambda row: (pairs.index(row.pair), row.regularised))
    figure, axes = panels(1, 3, width=12, height=3.6, ratios=(0.8, 1, 1))
    _points(axes[0, 0], shown, pairs, metric)
    for axis, kind in zip(axes[0, 1:], TITLES, strict=True):
        for row in shown:
            values = row.spectrum(kind)
            values = values[values > 0]
            axis.plot(
                np.arange(1, len(values) + 1),
                values / values.sum(),
                color=colour(pairs.index(row.pair)),
                linestyle="--" if row.regularised else "-",
                linewidth=1.4,
                label=f"{row.row.label} (rho {row.rho:.3f})",
            )
        axis.set(yscale="log", xlabel="place", ylabel="share of the sum")
        axis.set_title(TITLES[kind], fontsize=9)
    handles, labels = axes[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=7, frameon=False)
    return save(figure, path)


def _points(axis: Any, shown: list[Drawn], pairs: list[str], metric: str) -> None:
    for place, row in enumerate(shown):
        cell, shade = row.cell(metric), colour(pairs.index(row.pair))
        fill = "white" if row.regularised else shade
        axis.errorbar(place, cell.mean, yerr=errors(cell), fmt="o", color=shade, markerfacecolor=fill, capsize=2)
    axis.set_xticks(range(len(shown)), [row.row.label for row in shown], rotation=40, ha="right", fontsize=7)
    axis.grid(axis="y", color="#eeeeee")
    axis.set_title(f"{metric} (hollow: with a regulariser)", fontsize=9)
