"""Scores and costs of leaderboard rows as text, for people and for programs."""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterable

from levelfield.evaluation import parse
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.rows import COSTS, OF_USE, Cell, Row, networks_differ

PARTS = ("mean", "low", "high", "sd_over_seeds")  # of a metric, in the CSV file
COST_HEADINGS = ("train s", "peak MB", "images", "rows through trunk")
NETWORK_HEADINGS = ("M weights", "MFLOP/image")
COUNTS = ("peak_bytes", "images", "rows_through_trunk", "weights", "operations")  # costs besides seconds
UNKNOWN = "not known"


def heading(metric: str) -> str:
    """The column heading; geometry metrics name the set, since papers measure them on training embeddings."""
    return f"{metric} (test)" if parse(metric).kind == "geometry" else metric


def letters(texts: Iterable[str]) -> dict[str, str]:
    """A letter for each distinct text, in order of appearance; capitals follow z, then numbers."""
    signs = itertools.chain(string.ascii_letters, (f"({k})" for k in itertools.count(1)))
    return dict(zip(dict.fromkeys(texts), signs, strict=False))


def score(cell: Cell) -> str:
    return f"{cell.mean:.3f}" + (f" {cell.representation}" if cell.representation else "")


def interval(cell: Cell) -> str:
    """The interval over test classes and retraining, as text.

    >>> interval(Cell(0.5, 0.4, 0.6)), interval(Cell(0.5, -0.1, 1.1))
    ('0.400-0.600', '-0.100 to 1.100')
    """
    if cell.low is None or cell.high is None:
        return UNKNOWN
    return f"{cell.low:.3f}{'-' if cell.low >= 0 else ' to '}{cell.high:.3f}"


def spread(cell: Cell) -> str:
    return f"{cell.spread:.3f}" if cell.spread is not None else "-"


def costs(row: Row) -> list[str]:
    """The cells below COST_HEADINGS."""
    if not row.trained:
        return ["-"] * len(COST_HEADINGS)
    peak = UNKNOWN if row.peak_bytes is None else f"{row.peak_bytes / 1e6:,.0f}"
    counts = [UNKNOWN if count is None else f"{count:,.0f}" for count in (row.images, row.rows_through_trunk)]
    return [f"{row.seconds:.1f}", peak, *counts]


def network(row: Row) -> list[str]:
    """The cells below NETWORK_HEADINGS: millions of weights, and of operations for one image."""
    counts = ((row.weights, 1), (row.operations, 0))
    return [UNKNOWN if count is None else f"{count / 1e6:,.{digits}f}" for count, digits in counts]


def front_lines(board: Leaderboard) -> list[str]:
    """For each test set and cost, the rows that no other row beats at the same or lower cost. Only given if three or
    more rows trained and their cost is known."""
    lines = []
    for test_set, fronts in board.fronts.items():
        trained = [row for row in board.rows if row.trained and row.test_set == test_set]
        where = f"{test_set}: Pareto front" if len(board.fronts) > 1 else "Pareto front"
        lines += [
            f"{where} of {board.metrics[0]} against {COSTS[cost]}: {', '.join(labels)}."
            for cost, labels in fronts.items()
            if sum(getattr(row, cost) is not None for row in trained) >= 3
            and (cost not in OF_USE or networks_differ(trained))
        ]
    return lines
