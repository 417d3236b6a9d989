"""Leaderboard rows for figures: with their runs and the spectra of their training embeddings."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.evaluation.statistics import t_interval
from levelfield.reports.figures._style import Style, is_regularised, styles, without_regulariser
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.rows import Cell, Row
from levelfield.studies.runs.folder.spectra import read
from levelfield.studies.runs.folder.store import Result, read_result
from levelfield.studies.runs.spec import PlannedRun


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

    @property
    def rho_cell(self) -> Cell | None:
        """Spectral decay of the training embeddings, with its 95 % interval over seeds; None if nothing was trained."""
        values = [result.summary["rho_train"] for result in self.results if "rho_train" in result.summary]
        if not values:
            return None
        interval = t_interval(np.array(values)) if np.isfinite(values).all() else None
        return Cell(float(np.mean(values)), *((interval.low, interval.high) if interval else ()))

    def spectrum(self, kind: str) -> np.ndarray:
        """Mean over seeds of the training embeddings' spectrum."""
        mean: np.ndarray = np.mean([read(result.folder, kind) for result in self.results], axis=0)
        return mean

    @property
    def regularised(self) -> bool:
        return self.style.hollow

    @property
    def pair(self) -> str:
        """A key that is equal for a method with and without its regulariser."""
        return json.dumps([self.method, without_regulariser(self.settings), self.row.variation], sort_keys=True)


def drawn(board: Leaderboard, runs: list[PlannedRun], folder: Path) -> list[Drawn]:
    """All rows that have a finished run, best first."""
    drawn_rows = []
    looks = styles(runs)
    for row in board.rows:
        own = [run for run in runs if run.row == row.label and run.spec.seed in row.seeds]
        results = [result for run in own if (result := read_result(run.folder(folder))) is not None]
        method = own[0].spec.method
        look = replace(looks[own[0].label], hollow=is_regularised(method.settings))
        drawn_rows.append(Drawn(row, own[0].label, method.name, method.settings, results, look))
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
