"""A sweep: one line per method over one key, or a heat map over two (roth2020, figure 8)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.errors import BadInput
from levelfield.reports.figures import _drawing as drawing
from levelfield.reports.figures._registry import register
from levelfield.reports.figures._rows import Drawn, ends, errors
from levelfield.settings import is_finite
from levelfield.studies.leaderboard.across import ELSEWHERE
from levelfield.studies.planning.plan import needed_labels
from levelfield.studies.specification.study import Study, owner

Measure = Callable[[Drawn], float | None]
CROWDED = 26  # characters of all tick labels that fit side by side in one panel
ACROSS = 3  # heat maps side by side
_BATCH = re.compile(r"\d+x\d+")
_OF_A_BATCH = ("classes in a batch", "images of a class")
BESIDE, WIDEST = 4.0, 20.0  # points between the intervals of two methods, and of all methods


def _nothing_varies(study: Study) -> str | None:
    """A sweep needs one or two varied keys that apply to the same method."""
    labels = [method.label for method in study.methods]
    owners = [owner(key, labels) for key in study.vary]
    count = max(
        sum(owner_label in (None, *concerned) for owner_label in owners)
        for concerned in (needed_labels(study.methods, label, run_code=False) for label in labels)
    )
    if count == 0:
        return "nothing varies: give `vary` one key, or two for a heat map, e.g. vary: {conditions.dim: [64, 128]}"
    return f"{count} keys vary: a sweep can show one key, or two as a heat map" if count > 2 else None


@register("sweep", "the first metric over the varied values: lines, or a heat map", why_not=_nothing_varies)
def draw_sweep(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw lines for one varied key, heat maps for two; a grid of batches, classes x images, counts as two."""
    rows = _batch_grid(rows)
    most = max(len(row.row.variation) for row in rows)
    if most not in (1, 2):
        raise BadInput(f"A sweep over {most} keys cannot be drawn: `vary` needs one key, or two for a heat map.")
    return _lines(rows, metric, path) if most == 1 else _heat_maps(rows, metric, path)


def _lines(rows: list[Drawn], metric: str, path: Path) -> Path:
    """The metric and, if something was trained, rho of the training embeddings; one line of panels per key and test
    set."""
    varied = [row for row in rows if row.row.variation]
    measures: dict[str, Measure] = {metric: lambda row: row.cell(metric).mean}
    if any(row.rho is not None for row in varied):
        measures["rho of the training embeddings"] = lambda row: row.rho
    values: dict[tuple[str, str], list[Any]] = {}
    for row in varied:
        values.setdefault((_test_set(row), _key(row)), []).append(_value(row))
    width = max(4.4, 0.18 * max(len(drawing.ordered(ticks)) for ticks in values.values()))
    figure, axes = drawing.panels(len(values), len(measures), width=width * len(measures), height=3.4 * len(values))
    several = len({test_set for test_set, _ in values}) > 1
    handles: dict[str, Any] = {}
    for line, ((test_set, key), ticks) in zip(axes, values.items(), strict=True):
        there = [row for row in rows if _key(row) in (key, "") and test_set in (_test_set(row), "")]
        for axis, (name, measure) in zip(line, measures.items(), strict=True):
            known = [row for row in there if measure(row) is not None]
            positions = _set_ticks(axis, drawing.ordered(ticks))
            for label in dict.fromkeys(row.label for row in known):
                of_method = [row for row in known if row.label == label]
                handles.setdefault(label, _draw_line(axis, of_method, measure, positions))
            if name == metric:
                _draw_intervals(axis, known, metric, positions)
            shown = [value for row in known for value in (ends(row.cell(metric)) if name == metric else [measure(row)])]
            axis.set(ylim=drawing.limits(shown), xlabel=key, ylabel=name, title=test_set if several else "")
            axis.grid(axis="y", color=drawing.GRID)
    labels = [label for label in dict.fromkeys(row.label for row in rows) if label in handles]
    drawing.legend_beside(figure, [handles[label] for label in labels], drawing.shortened(labels))
    return drawing.save(figure, path)


def _draw_line(axis: Any, rows: list[Drawn], measure: Measure, positions: dict[str, float]) -> Any:
    """Draw a method's values; a horizontal line if nothing varies for it."""
    first, style = rows[0], replace(rows[0].style, hollow=all(row.style.hollow for row in rows))
    if not first.row.variation:
        level = style.line if first.row.trained else ":"
        return axis.axhline(measure(first), color=style.colour, linestyle=level, label=first.label)
    points = sorted((positions[str(_value(row))], measure(row)) for row in rows)
    (line,) = axis.plot(*zip(*points, strict=True), linestyle=style.line, label=first.label, **style.points)
    return line


def _draw_intervals(axis: Any, rows: list[Drawn], metric: str, positions: dict[str, float]) -> None:
    """Draw known intervals. Those of several methods are shifted sideways so that they do not cover each other."""
    from matplotlib.transforms import ScaledTranslation

    known = [row for row in rows if row.row.variation and errors(row.cell(metric))]
    labels = list(dict.fromkeys(row.label for row in known))
    for row in known:
        aside = (labels.index(row.label) - (len(labels) - 1) / 2) * min(BESIDE, WIDEST / len(labels)) / 72
        moved = axis.transData + ScaledTranslation(aside, 0, axis.figure.dpi_scale_trans)
        at, cell = positions[str(_value(row))], row.cell(metric)
        look = {"color": row.style.colour, "linewidth": 1.2, "alpha": 0.5, "zorder": 1}
        axis.plot([at, at], [cell.low, cell.high], transform=moved, **look)


def _set_ticks(axis: Any, values: list[Any]) -> dict[str, float]:
    """Set a tick at each value and nowhere else; returns the position of each value by its text."""
    scale = drawing.spacing(values)
    positions = [float(index) if scale == "even" else float(value) for index, value in enumerate(values)]
    texts = drawing.shortened([f"{value:,g}" if is_finite(value) else str(value) for value in values], 24)
    turned: dict[str, Any] = {}
    if sum(len(text) + 1 for text in texts) > CROWDED:
        turned = {"rotation": 90, "ha": "center"} if len(texts) > 12 else {"rotation": 35, "ha": "right"}
    low, high = min(positions), max(positions)
    if scale == "log":
        axis.set_xscale("log")
        beyond = (high / low) ** 0.05
        axis.set_xlim(low / beyond, high * beyond)
    else:
        beyond = 0.05 * (high - low) or 0.5
        axis.set_xlim(low - beyond, high + beyond)
    axis.set_xticks(positions, texts, fontsize=8, **turned)
    axis.set_xticks([], minor=True)
    return {str(value): position for value, position in zip(values, positions, strict=True)}


def _key(row: Drawn) -> str:
    """The last part of the key that varies for the row; empty if none does."""
    return next(iter(row.row.variation), "").rsplit(".", 1)[-1]


def _test_set(row: Drawn) -> str:
    """The test set of the row; empty if the data itself varies, so that its values share a panel."""
    return "" if next(iter(row.row.variation), "").split(".")[0] in ELSEWHERE else row.row.test_set


def _value(row: Drawn) -> Any:
    return next(iter(row.row.variation.values()))


def _batch_grid(rows: list[Drawn]) -> list[Drawn]:
    """The rows; if one key varies, batches such as 6x9 that form a grid, its two numbers vary in its place."""
    texts = {str(value) for row in rows for value in row.row.variation.values()}
    parts = {text: tuple(map(int, text.split("x"))) for text in texts if _BATCH.fullmatch(text)}
    sides = [len(set(numbers)) for numbers in zip(*parts.values(), strict=True)]
    single = all(len(row.row.variation) == 1 for row in rows)
    if not single or len(parts) < len(texts) or len(parts) != math.prod(sides) or min(sides) < 2:
        return rows
    pairs = [dict(zip(_OF_A_BATCH, parts[str(_value(row))], strict=True)) for row in rows]
    return [replace(row, row=replace(row.row, variation=pair)) for row, pair in zip(rows, pairs, strict=True)]


def _heat_maps(rows: list[Drawn], metric: str, path: Path) -> Path:
    """One panel for each method that both keys apply to; all panels share one colour scale."""
    varied = [row for row in rows if len(row.row.variation) == 2]
    methods = {label: [row for row in varied if row.label == label] for label in dict.fromkeys(r.label for r in varied)}
    ticks = {
        label: [drawing.ordered([row.row.variation[key] for row in of_method]) for key in of_method[0].row.variation]
        for label, of_method in methods.items()
    }
    width = max(3.4, 0.5 * max(len(across) for _, across in ticks.values()) + 1.2)
    height = max(2.6, 0.24 * max(len(down) for down, _ in ticks.values()) + 1.2)
    figure, axes = drawing.panel_grid(len(methods), across=ACROSS, width=width, height=height, beside=0.8)
    low, high = drawing.limits(row.cell(metric).mean for row in varied)
    image: Any = None
    for axis, (label, of_method), name in zip(axes, methods.items(), drawing.shortened(list(methods), 36), strict=True):
        keys, (down, across) = list(of_method[0].row.variation), ticks[label]
        values = np.full((len(down), len(across)), np.nan)  # nan where a run is missing
        for row in of_method:
            position = down.index(row.row.variation[keys[0]]), across.index(row.row.variation[keys[1]])
            values[position] = row.cell(metric).mean
        image = axis.imshow(values, cmap="viridis", aspect="auto", vmin=low, vmax=high)
        drawing.write_values(axis, values, ".3f", dark=values <= (low + high) / 2)
        axis.set_xticks(range(len(across)), drawing.shortened([str(value) for value in across], 16))
        axis.set_yticks(range(len(down)), drawing.shortened([str(value) for value in down], 16))
        below, beside = (key.removeprefix(f"methods.{label}.") for key in reversed(keys))
        axis.set(xlabel=below, ylabel=beside, title=name)
        if max(len(str(value)) for value in across) > 6:
            axis.tick_params(axis="x", rotation=35)
    figure.colorbar(image, ax=axes, shrink=0.8, label=metric)
    return drawing.save(figure, path)
