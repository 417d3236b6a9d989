"""Leaderboard rows for figures, with their runs, and the style that each method has in every figure of a study."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from levelfield import methods
from levelfield.evaluation.statistics.intervals import t_interval
from levelfield.papers import presets
from levelfield.studies import Leaderboard, PlannedRun
from levelfield.studies.leaderboard.rows import Cell, Row
from levelfield.studies.runs.folder.files import read_spectrum
from levelfield.studies.runs.folder.store import Result, read_result
from levelfield.studies.specification.choices import MethodSpec

REGULARISERS = ("switch", "mixup")
# Okabe and Ito: distinguishable with any colour vision. Grey is reserved for untrained rows.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222")
GREY = "#8a8a8a"
MARKERS = {"o": 5.0, "s": 5.0, "^": 5.5, "D": 4.5, "v": 5.5, "P": 6.5, "X": 6.5, "*": 8.0}  # with their sizes
# plain and with a regulariser, for the first methods, the next ones, ...
LINES: tuple[tuple[Any, Any], ...] = (
    ("-", "--"),
    ("-.", (0, (6, 2, 1, 2, 1, 2))),
    ((0, (8, 2)), (0, (2, 1))),
    ((0, (4, 1, 1, 1)), (0, (4, 3, 1, 3))),
)
LEVELS: tuple[Any, ...] = (":", (0, (1, 3)), (0, (3, 3)), (0, (3, 2, 1, 2)))


@dataclass(frozen=True)
class Style:
    """Style of one method. `hollow`: with a regulariser; without one, the same colour and marker are filled."""

    colour: str
    marker: str
    lines: tuple[Any, Any] = LINES[0]
    hollow: bool = False

    @property
    def line(self) -> Any:
        return self.lines[self.hollow]

    @property
    def points(self) -> dict[str, Any]:
        """Keywords for points of matplotlib's `plot` and `errorbar`."""
        fill = "white" if self.hollow else self.colour
        return {
            "marker": self.marker,
            "markersize": MARKERS[self.marker],
            "color": self.colour,
            "markerfacecolor": fill,
            "markeredgecolor": self.colour,
        }


@dataclass(frozen=True)
class Drawn:
    """One row of the leaderboard and its finished runs."""

    row: Row
    label: str  # without varied values
    method: str
    settings: dict[str, Any]
    results: list[Result]
    style: Style  # of its label; a variation may set a regulariser

    def cell(self, metric: str) -> Cell:
        return self.row.cells[metric]

    @property
    def rho(self) -> float | None:
        """Spectral decay of the training embeddings, mean over seeds; None if nothing was trained."""
        return self.rho_cell.mean if self.rho_cell else None

    @cached_property
    def rho_cell(self) -> Cell | None:
        """Spectral decay of the training embeddings, with its 95 % interval over seeds; None if nothing was trained."""
        values = [result.summary["rho_train"] for result in self.results if "rho_train" in result.summary]
        if not values:
            return None
        interval = t_interval(np.array(values)) if np.isfinite(values).all() else None
        return Cell(float(np.mean(values)), *((interval.low, interval.high) if interval else ()))

    def spectrum(self, kind: str) -> np.ndarray:
        """Mean over seeds of the training embeddings' spectrum."""
        return np.asarray(np.mean([read_spectrum(result.folder, kind) for result in self.results], axis=0))

    @property
    def pair(self) -> str:
        """A key that is equal for a method with and without its regulariser."""
        return json.dumps([self.method, without_regulariser(self.settings), self.row.variation], sort_keys=True)


def drawn(board: Leaderboard, runs: list[PlannedRun], folder: Path) -> list[Drawn]:
    """All rows that have a finished run, best first."""
    drawn_rows = []
    looks = styles(runs)
    for row in board.rows:
        of_row = [run for run in runs if run.row == row.label and run.spec.seed in row.seeds]
        results = [result for run in of_row if (result := read_result(run.folder(folder))) is not None]
        method = of_row[0].spec.method
        look = replace(looks[of_row[0].label], hollow=is_regularised(method.settings))
        drawn_rows.append(Drawn(row, of_row[0].label, method.name, method.settings, results, look))
    return drawn_rows


def by_test_set(rows: list[Drawn]) -> dict[str, list[Drawn]]:
    """The rows of each test set: a study may vary its data, and a figure may show several studies."""
    sets: dict[str, list[Drawn]] = {}
    for row in rows:
        sets.setdefault(row.row.test_set, []).append(row)
    return sets


def ends(cell: Cell) -> list[float]:
    """The values that a cell shows on an axis: its mean and, if known, the ends of its interval."""
    return [value for value in (cell.mean, cell.low, cell.high) if value is not None]


def errors(cell: Cell) -> list[list[float]] | None:
    """The interval of a cell as distances below and above its mean."""
    return None if cell.low is None or cell.high is None else [[cell.mean - cell.low], [cell.high - cell.mean]]


def styles(runs: Sequence[PlannedRun]) -> dict[str, Style]:
    """The style of each label, by the order of the study's methods, so that a missing run changes no colour.

    A method with a regulariser shares colour and marker with the same method without it. Untrained rows are grey.
    """
    competitors: dict[str, MethodSpec] = {}
    for run in runs:
        competitors.setdefault(run.label, run.spec.method)
    by_label: dict[str, Style] = {}
    families: dict[str, int] = {}
    drawn: set[tuple[str, bool]] = set()
    grey = zip(itertools.cycle(MARKERS), itertools.cycle(LEVELS), strict=False)
    for label, method in competitors.items():
        if not (methods.trains(method.name) or methods.class_of(method.name).joins):
            marker, level = next(grey)
            by_label[label] = Style(GREY, marker, (level, level))
            continue
        hollow = is_regularised(method.settings)
        family = json.dumps([method.name, without_regulariser(method.settings), method.conditions], sort_keys=True)
        if (family, hollow) in drawn:
            family = json.dumps(label)  # differs in more than the regulariser: gets its own colour
        drawn.add((family, hollow))
        # each combination of colour and marker is unique among the first 56 methods
        again, index = divmod(families.setdefault(family, len(families)), len(COLOURS))
        marker = list(MARKERS)[(again + index) % len(MARKERS)]
        by_label[label] = Style(COLOURS[index], marker, LINES[again % len(LINES)], hollow)
    return by_label


def is_regularised(settings: dict[str, Any]) -> bool:
    """Whether the settings, or their preset, have a regulariser.

    >>> is_regularised({"switch": 0.3}), is_regularised({"preset": "roth2020/cub/rho"})
    (True, True)
    """
    return any(settings.get(key) for key in REGULARISERS) or _plain_preset(settings) != settings.get("preset")


def without_regulariser(settings: dict[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in settings.items() if key not in REGULARISERS}
    return plain | {"preset": _plain_preset(settings)} if "preset" in plain else plain


def _plain_preset(settings: dict[str, Any]) -> str | None:
    preset = settings.get("preset")
    return None if preset is None else presets.without_regulariser(str(preset))
