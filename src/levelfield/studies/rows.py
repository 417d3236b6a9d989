"""One row of a leaderboard: its figures, what it cost, and in what it was not treated equally."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from levelfield.studies.best_on_test import BestOnTest


@dataclass(frozen=True)
class Cell:
    """One figure: mean over seeds, its 95 % interval over test classes and training again (None: not known), and the
    standard deviation over seeds (None: one run, or not defined)."""

    mean: float
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    representation: str = ""


@dataclass(frozen=True)
class Row:
    """One competitor (under one variation). What it cost is for one run, mean over seeds; None is not known."""

    label: str
    trained: bool
    seeds: list[int]
    cells: dict[str, Cell]
    seconds: float
    deviations: list[str]
    warnings: list[str]
    variation: dict[str, Any]
    first_run: str
    tied_with_best: bool = False
    planning: float = 0.0  # seconds of training that went into choosing batches
    peak_bytes: float | None = None  # of main memory while it trained
    images: float | None = None
    rows_through_trunk: float | None = None
    test_set: str = ""  # its name in the leaderboard's signatures
    best_on_test: BestOnTest | None = None
