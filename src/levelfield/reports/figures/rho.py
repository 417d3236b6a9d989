"""Spectral decay (rho) of the training embeddings: against scores, with all metrics, and the spectra (roth2020)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from levelfield.errors import BadInput
from levelfield.reports.figures import _drawing as drawing
from levelfield.reports.figures._placing import Points, name_points, number_points
from levelfield.reports.figures._registry import nothing_trains, register
from levelfield.reports.figures._rows import Drawn, by_test_set, ends, errors
from levelfield.reports.figures.leaderboard import draw_rows


@register(
    "recall-rho", "the first metric against the spectral decay of the training embeddings", why_not=nothing_trains
)
def draw_recall_rho(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw a point for each row, hollow with a regulariser; an arrow points to it from the same method without it.

    Every test set has a panel.
    """
    shown = [row for row in rows if row.rho is not None and np.isfinite(row.rho)]
    if not shown:
        raise BadInput("The figure 'recall-rho' needs a row that was trained; this study has none.")
    sets = by_test_set(shown)
    figure, axes = drawing.panels(1, len(sets), width=6.4 * len(sets), height=4.4)
    points: list[Points] = []
    lines: dict[str, Any] = {}
    for axis, (test_set, of_set) in zip(axes[0], sets.items(), strict=True):
        lines |= _draw_points(axis, of_set, metric)
        at = [(row.rho or 0.0, row.cell(metric).mean) for row in of_set]
        labels, colours = [row.row.label for row in of_set], [row.style.colour for row in of_set]
        points.append(Points(axis, at, labels, colours))
        related = correlation(of_set, metric)
        title = [test_set] if len(sets) > 1 else []
        title += ["hollow: with a regulariser"] if any(row.style.hollow for row in of_set) else []
        title += [] if related is None else [f"correlation over {len(of_set)} rows: {related:z.2f}"]
        axis.set_title("; ".join(title))
    if not name_points(points):  # numbers, and the names in a legend
        texts = [f"{number}  {name}" for number, name in enumerate(drawing.shortened(list(lines)), 1)]
        drawing.legend_beside(figure, list(lines.values()), texts)
        number_points(points, {label: str(number) for number, label in enumerate(lines, 1)})
    return drawing.save(figure, path)


def _draw_points(axis: Any, shown: list[Drawn], metric: str) -> dict[str, Any]:
    """Draw points, intervals and arrows; returns the point of each row by its label."""
    lines = {}
    for row in shown:
        cell, rho = row.cell(metric), row.rho_cell
        assert rho is not None
        bars = {"xerr": errors(rho), "yerr": errors(cell)}
        axis.errorbar(rho.mean, cell.mean, **bars, fmt="none", ecolor=row.style.colour, alpha=0.35, capsize=2)
        (lines[row.row.label],) = axis.plot(
            rho.mean, cell.mean, linestyle="none", label=row.row.label, **row.style.points
        )
        plain = [other for other in shown if other.pair == row.pair and not other.style.hollow]
        if row.style.hollow and plain:
            start = (plain[0].rho, plain[0].cell(metric).mean)
            arrow = {"arrowstyle": "->", "color": "#888888", "shrinkA": 4, "shrinkB": 4}
            axis.annotate("", (row.rho, cell.mean), xytext=start, arrowprops=arrow)
    axis.set(xlabel="rho of the training embeddings (larger: more compressed)", ylabel=metric)
    low, high = drawing.limits(value for row in shown if row.rho_cell for value in ends(row.rho_cell))
    axis.set_xlim(low - 0.06 * (high - low), high + 0.12 * (high - low))  # room for names
    axis.set_ylim(drawing.limits(value for row in shown for value in ends(row.cell(metric))))
    return lines


def correlation(shown: list[Drawn], metric: str) -> float | None:
    """Between rho and the metric over the rows; None with fewer than three."""
    rho, value = np.array([(row.rho, row.cell(metric).mean) for row in shown]).T
    return float(np.corrcoef(rho, value)[0, 1]) if len(rho) > 2 and rho.std() and value.std() else None


MIN_ROWS = 3
RHO = "rho (training)"


@register(
    "correlations",
    "the correlation over trained rows of every metric with every other, and with rho of the training embeddings",
    why_not=nothing_trains,
)
def draw_correlations(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw a matrix for each test set. A metric that is equal in all rows has no correlation: its fields are empty."""
    trained = by_test_set([row for row in rows if row.rho is not None])
    tables = {}
    for name, of_set in trained.items():
        values = [[*(cell.mean for cell in row.row.cells.values()), row.rho] for row in of_set]
        table = np.array(values, dtype=float)
        table = table[np.isfinite(table).all(axis=1)]
        if len(table) >= MIN_ROWS:
            tables[name] = table
    if not tables:
        raise BadInput(f"The figure 'correlations' needs {MIN_ROWS} trained rows on the same test set.")
    side = 1.6 + 0.5 * max(table.shape[1] for table in tables.values())
    figure, axes = drawing.panels(1, len(tables), width=side * len(tables), height=side + 0.6)  # room for names
    for axis, (name, table) in zip(axes[0], tables.items(), strict=True):
        with np.errstate(invalid="ignore", divide="ignore"):
            matrix = np.corrcoef(table, rowvar=False)
        axis.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
        drawing.write_values(axis, matrix, "z.2f", dark=np.abs(matrix) > 0.6)
        names = [*trained[name][0].row.cells, RHO]
        axis.set_xticks(range(len(names)), names, rotation=90)
        axis.set_yticks(range(len(names)), names)
        axis.set_title(f"{name}: correlation over {len(table)} rows")
    return drawing.save(figure, path)


_TITLES = {"spectrum": "singular values, all training rows", "class_spectrum": "the same, mean over classes"}


@register("spectra", "means, and the singular values of the training embeddings", why_not=nothing_trains)
def draw_spectra(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw scores and two spectra; a method with a regulariser has the colour of the plain one and a dashed line."""
    shown = [row for row in rows if row.rho is not None]
    if not shown:
        raise BadInput("The figure 'spectra' needs a row that was trained; this study has none.")
    pairs = list(dict.fromkeys(row.pair for row in shown))
    shown.sort(key=lambda row: (pairs.index(row.pair), row.style.hollow))
    names = drawing.shortened([row.row.label for row in shown])
    figure, axes = drawing.panels(1, 3, width=11, height=max(3.4, 0.8 + 0.2 * len(shown)), ratios=(1, 1, 1))
    draw_rows(axes[0, 0], shown, names, metric)
    hollow = " (hollow: with a regulariser)" if any(row.style.hollow for row in shown) else ""
    axes[0, 0].set_title(metric + hollow)
    for axis, kind in zip(axes[0, 1:], _TITLES, strict=True):
        for row in shown:
            values = row.spectrum(kind)
            values = values[values > 0]
            alike = [other for other in shown if other.style == row.style]  # variations of a method: later ones paler
            axis.plot(
                np.arange(1, len(values) + 1),
                values / values.sum(),
                color=row.style.colour,
                linestyle=row.style.line,
                linewidth=1.4,
                alpha=1.0 - 0.65 * alike.index(row) / max(1, len(alike) - 1),
                label=f"{row.row.label} (rho {row.rho:.3f})",
            )
        axis.set(yscale="log", xlabel="place", ylabel="share of the sum")
        axis.set_title(_TITLES[kind])
        axis.xaxis.get_major_locator().set_params(integer=True)
        drawing.write_plainly(axis.yaxis)
    labels = [f"{name} (rho {row.rho:.3f})" for name, row in zip(names, shown, strict=True)]
    drawing.legend_beside(figure, axes[0, 1].get_lines(), labels)
    return drawing.save(figure, path)
