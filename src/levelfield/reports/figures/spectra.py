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
    """Bars and two spectra; the same method with a regulariser has the same colour and a dashed line."""
    shown = [row for row in rows if row.rho is not None]
    if not shown:
        raise BadInput("No row has spectra of its training embeddings: nothing was trained.")
    pairs = list(dict.fromkeys(row.pair for row in shown))
    shown.sort(key=lambda row: (pairs.index(row.pair), row.regularised))
    figure, axes = panels(1, 3, width=11, height=3.6, ratios=(0.8, 1, 1))
    _bars(axes[0, 0], shown, pairs, metric)
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
    axes[0, 1].legend(fontsize=6.5, frameon=False)
    return save(figure, path)


def _bars(axis: Any, shown: list[Drawn], pairs: list[str], metric: str) -> None:
    for place, row in enumerate(shown):
        cell, shade = row.cell(metric), colour(pairs.index(row.pair))
        hatch = "//" if row.regularised else None
        axis.bar(place, cell.mean, 0.75, color="white" if hatch else shade, edgecolor=shade, hatch=hatch)
        axis.errorbar(place, cell.mean, yerr=errors(cell), fmt="none", ecolor="#444444", capsize=2)
    axis.set_xticks(range(len(shown)), [row.row.label for row in shown], rotation=40, ha="right", fontsize=7)
    lowest = min(row.cell(metric).low or row.cell(metric).mean for row in shown)
    axis.set_ylim(bottom=max(0.0, lowest - 0.05))
    axis.set_title(metric, fontsize=9)
