"""roth2020, figures 11 and 13: recall beside the spectra of the training embeddings, overall and per class."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from levelfield.errors import BadInput
from levelfield.reports.figures._axes import write_plainly
from levelfield.reports.figures._drawing import panels, plainly, save
from levelfield.reports.figures._labels import legend_beside, shortened
from levelfield.reports.figures._possible import nothing_trains
from levelfield.reports.figures._registry import register
from levelfield.reports.figures._rows import Drawn
from levelfield.reports.figures.leaderboard import draw_rows

TITLES = {"spectrum": "singular values, all training rows", "class_spectrum": "the same, mean over classes"}


@register("spectra", "means, and the singular values of the training embeddings", why_not=nothing_trains)
@plainly
def draw_spectra(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw scores and two spectra; a method with a regulariser has the colour of the plain one and a dashed line."""
    shown = [row for row in rows if row.rho is not None]
    if not shown:
        raise BadInput("The figure 'spectra' needs a row that was trained; this study has none.")
    pairs = list(dict.fromkeys(row.pair for row in shown))
    shown.sort(key=lambda row: (pairs.index(row.pair), row.regularised))
    names = shortened([row.row.label for row in shown])
    figure, axes = panels(1, 3, width=11, height=max(3.4, 0.8 + 0.2 * len(shown)), ratios=(1, 1, 1))
    draw_rows(axes[0, 0], shown, names, metric)
    hollow = " (hollow: with a regulariser)" if any(row.regularised for row in shown) else ""
    axes[0, 0].set_title(metric + hollow)
    for axis, kind in zip(axes[0, 1:], TITLES, strict=True):
        for row in shown:
            values = row.spectrum(kind)
            values = values[values > 0]
            axis.plot(
                np.arange(1, len(values) + 1),
                values / values.sum(),
                color=row.style.colour,
                linestyle=row.style.line,
                linewidth=1.4,
                alpha=_strength(row, shown),
                label=f"{row.row.label} (rho {row.rho:.3f})",
            )
        axis.set(yscale="log", xlabel="place", ylabel="share of the sum")
        axis.set_title(TITLES[kind])
        axis.xaxis.get_major_locator().set_params(integer=True)
        write_plainly(axis.yaxis)
    labels = [f"{name} (rho {row.rho:.3f})" for name, row in zip(names, shown, strict=True)]
    legend_beside(figure, axes[0, 1].get_lines(), labels)
    return save(figure, path)


def _strength(row: Drawn, shown: list[Drawn]) -> float:
    """Opacity of a row: variations of one method share its colour, later ones paler."""
    alike = [other for other in shown if other.style == row.style]
    return 1.0 - 0.65 * alike.index(row) / max(1, len(alike) - 1)
