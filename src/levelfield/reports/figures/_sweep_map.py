"""A sweep over two keys: one heat map of the metric per method."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from levelfield.reports.figures._axes import limits, ordered
from levelfield.reports.figures._drawing import panels, save
from levelfield.reports.figures._labels import shortened
from levelfield.reports.figures._rows import Drawn

ACROSS = 3
_BATCH = re.compile(r"\d+x\d+")
_OF_A_BATCH = ("classes in a batch", "images of a class")


class _Table(NamedTuple):
    """Values [down, across] of one method; nan where a run is missing."""

    keys: tuple[str, str]
    down: list[Any]
    across: list[Any]
    values: np.ndarray


def batch_grid(rows: list[Drawn]) -> list[Drawn]:
    """The rows; if one key varies, batches such as 6x9 that form a grid, its two numbers vary in its place."""
    texts = {str(value) for row in rows for value in row.row.variation.values()}
    parts = {text: tuple(map(int, text.split("x"))) for text in texts if _BATCH.fullmatch(text)}
    down, across = ({pair[side] for pair in parts.values()} for side in (0, 1))
    single = all(len(row.row.variation) == 1 for row in rows)
    if (
        not single
        or len(parts) < len(texts)
        or len(parts) != len(down) * len(across)
        or min(len(down), len(across)) < 2
    ):
        return rows
    numbers = [parts[str(value)] for row in rows for value in row.row.variation.values()]
    return [
        replace(row, row=replace(row.row, variation=dict(zip(_OF_A_BATCH, pair, strict=True))))
        for row, pair in zip(rows, numbers, strict=True)
    ]


def draw_maps(rows: list[Drawn], metric: str, path: Path) -> Path:
    """One panel for each method that both keys apply to; all panels share one colour scale."""
    varied = [row for row in rows if len(row.row.variation) == 2]
    labels = list(dict.fromkeys(row.label for row in varied))
    tables = [_table([row for row in varied if row.label == label], metric) for label in labels]
    across = min(ACROSS, len(labels))
    width = max(3.4, 0.5 * max(len(one.across) for one in tables) + 1.2)
    height = max(2.6, 0.24 * max(len(one.down) for one in tables) + 1.2)
    down = math.ceil(len(labels) / across)
    figure, axes = panels(down, across, width=width * across + 0.8, height=height * down)
    for axis in np.ravel(axes)[len(labels) :]:
        axis.set_visible(False)
    low, high = limits(np.concatenate([one.values.ravel() for one in tables]))
    image: Any = None
    for axis, table, label, name in zip(np.ravel(axes), tables, labels, shortened(labels, 36), strict=False):
        image = axis.imshow(table.values, cmap="viridis", aspect="auto", vmin=low, vmax=high)
        _write_values(axis, table.values, (low + high) / 2)
        axis.set_xticks(range(len(table.across)), shortened([str(value) for value in table.across], 16))
        axis.set_yticks(range(len(table.down)), shortened([str(value) for value in table.down], 16))
        axis.set_xlabel(_short(table.keys[1], label))
        axis.set_ylabel(_short(table.keys[0], label))
        axis.set_title(name)
        if max(len(str(value)) for value in table.across) > 6:
            axis.tick_params(axis="x", rotation=35)
    figure.colorbar(image, ax=axes, shrink=0.8, label=metric)
    return save(figure, path)


def _table(own: list[Drawn], metric: str) -> _Table:
    first, second = own[0].row.variation
    down, across = (ordered([row.row.variation[key] for row in own]) for key in (first, second))
    values = np.full((len(down), len(across)), np.nan)
    for row in own:
        place = down.index(row.row.variation[first]), across.index(row.row.variation[second])
        values[place] = row.cell(metric).mean
    return _Table((first, second), down, across, values)


def _write_values(axis: Any, values: np.ndarray, middle: float) -> None:
    for (i, j), value in np.ndenumerate(values):
        shade = "black" if value > middle else "white"  # legible on light and dark fields
        text = "" if np.isnan(value) else f"{value:.3f}"
        axis.text(j, i, text, ha="center", va="center", fontsize=7, color=shade)


def _short(key: str, label: str) -> str:
    """The axis label of a key in the panel of its method.

    >>> _short("methods.margin.beta", "margin"), _short("conditions.dim", "margin")
    ('beta', 'conditions.dim')
    """
    return key.removeprefix(f"methods.{label}.")
