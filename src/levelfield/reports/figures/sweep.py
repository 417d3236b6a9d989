"""What varies: a line for each method over one key, a heat map over two (002, figure 8)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.errors import BadInput
from levelfield.reports.figures._drawing import colour, marker, panels, save
from levelfield.reports.figures._rows import Drawn


def draw_sweep(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Lines or heat maps, as many keys as vary for a method."""
    most = max(len(row.row.variation) for row in rows)
    if most not in (1, 2):
        raise BadInput(f"A sweep over {most} keys cannot be drawn: `vary` needs one key, or two for a heat map.")
    return _lines(rows, metric, path) if most == 1 else _maps(rows, metric, path)


def _lines(rows: list[Drawn], metric: str, path: Path) -> Path:
    """The metric and, where something was trained, rho of the training embeddings."""
    known = any(row.rho is not None for row in rows if row.row.variation)
    figure, axes = panels(1, 2 if known else 1, width=9.5 if known else 5.5, height=3.6)
    keys = {key.rsplit(".", 1)[-1] for row in rows for key in row.row.variation}
    values = _ordered([value for row in rows for value in row.row.variation.values()])
    places = _places(values)
    measures: list[tuple[str, Callable[[Drawn], float | None]]] = [(metric, lambda row: row.cell(metric).mean)]
    measures += [("rho of the training embeddings", lambda row: row.rho)] if known else []
    for axis, (name, measure) in zip(axes[0], measures, strict=True):
        for number, label in enumerate(dict.fromkeys(row.label for row in rows)):
            own = [row for row in rows if row.label == label and measure(row) is not None]
            _line(axis, own, number, measure, places, metric if name == metric else None)
        axis.set(xlabel=", ".join(sorted(keys)), ylabel=name)
        if any(not isinstance(value, int | float) for value in values):
            axis.set_xticks(range(len(values)), [str(value) for value in values], rotation=30, ha="right")
    axes[0, 0].legend(fontsize=7, frameon=False)
    return save(figure, path)


def _line(
    axis: Any,
    own: list[Drawn],
    number: int,
    measure: Callable[[Drawn], float | None],
    places: dict[str, float],
    metric: str | None,
) -> None:
    """A method's values, with intervals where there are some; one that nothing varies for is a level."""
    varied = [row for row in own if row.row.variation]
    if own and not varied:
        axis.axhline(measure(own[0]), color=colour(number), linestyle=":", label=own[0].label)
        return
    points = [(places[str(next(iter(row.row.variation.values())))], measure(row), row) for row in varied]
    points.sort(key=lambda point: point[0])
    if not points:
        return
    at, value, ordered = zip(*points, strict=True)
    axis.plot(at, value, f"-{marker(number)}", color=colour(number), markersize=4, label=varied[0].label)
    if metric and all(row.cell(metric).low is not None for row in ordered):
        low, high = ([getattr(row.cell(metric), side) for row in ordered] for side in ("low", "high"))
        axis.fill_between(at, low, high, color=colour(number), alpha=0.12, linewidth=0)


def _maps(rows: list[Drawn], metric: str, path: Path) -> Path:
    """A heat map of the metric for each method that both keys vary for."""
    varied = [row for row in rows if len(row.row.variation) == 2]
    labels = list(dict.fromkeys(row.label for row in varied))
    figure, axes = panels(1, len(labels), width=4.2 * len(labels), height=3.6)
    for axis, label in zip(axes[0], labels, strict=True):
        own = [row for row in varied if row.label == label]
        first, second = own[0].row.variation
        down, across = (_ordered([row.row.variation[key] for row in own]) for key in (first, second))
        table = np.full((len(down), len(across)), np.nan)
        for row in own:
            place = down.index(row.row.variation[first]), across.index(row.row.variation[second])
            table[place] = row.cell(metric).mean
        image = axis.imshow(table, cmap="viridis", aspect="auto")
        figure.colorbar(image, ax=axis, shrink=0.8)
        middle = (np.nanmin(table) + np.nanmax(table)) / 2
        for (i, j), value in np.ndenumerate(table):
            shade = "black" if value > middle else "white"  # to be read on light and on dark fields
            text = "" if np.isnan(value) else f"{value:.3f}"
            axis.text(j, i, text, ha="center", va="center", fontsize=7, color=shade)
        axis.set_xticks(range(len(across)), [str(value) for value in across])
        axis.set_yticks(range(len(down)), [str(value) for value in down])
        axis.set(xlabel=_short(second, label), ylabel=_short(first, label))
        axis.set_title(f"{label}: {metric}", fontsize=9)
    return save(figure, path)


def _short(key: str, label: str) -> str:
    """A key under its method's own picture.

    >>> _short("methods.margin.beta", "margin"), _short("conditions.dim", "margin")
    ('beta', 'conditions.dim')
    """
    return key.removeprefix(f"methods.{label}.")


def _ordered(values: list[Any]) -> list[Any]:
    """Different values: numbers by size, words by the numbers and letters in them.

    >>> _ordered(["25x4", "100", "50x2", "25x4"])
    ['25x4', '50x2', '100']
    """
    different = list({str(value): value for value in values}.values())
    if all(isinstance(value, int | float) for value in different):
        return sorted(different)
    return sorted(different, key=lambda value: [(not part.isdecimal(), int(part) if part.isdecimal() else 0, part)
                                                for part in re.split(r"(\d+)", str(value)) if part])  # fmt: skip


def _places(values: list[Any]) -> dict[str, float]:
    """Where each value stands on the axis: numbers at their place, others one after another."""
    numbers = all(isinstance(value, int | float) for value in values)
    return {str(value): float(value) if numbers else float(place) for place, value in enumerate(values)}
