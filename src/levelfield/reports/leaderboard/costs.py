"""Training costs of leaderboard rows, for the files, and the Pareto fronts."""

from __future__ import annotations

from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.rows import COSTS, OF_USE, Row, networks_differ

HEADINGS = ("train s", "peak MB", "images", "rows through trunk")
NETWORK_HEADINGS = ("M weights", "MFLOP/image")  # of the network
COLUMNS = ("seconds", "peak_bytes", "images", "rows_through_trunk", "weights", "operations")
UNKNOWN = "not known"


def fields(row: Row) -> list[str]:
    """Formatted values for the columns HEADINGS."""
    if not row.trained:
        return ["-"] * len(HEADINGS)
    peak = UNKNOWN if row.peak_bytes is None else f"{row.peak_bytes / 1e6:,.0f}"
    counts = [UNKNOWN if count is None else f"{count:,.0f}" for count in (row.images, row.rows_through_trunk)]
    return [f"{row.seconds:.1f}", peak, *counts]


def network_fields(row: Row) -> list[str]:
    """Formatted values for the columns NETWORK_HEADINGS: millions of weights, and of operations for one image."""
    return [
        UNKNOWN if count is None else f"{count / 1e6:,.{digits}f}"
        for count, digits in ((row.weights, 1), (row.operations, 0))
    ]


def numbers(row: Row) -> list[str]:
    """Machine-readable values for the columns COLUMNS; empty if unknown."""
    counts = (row.peak_bytes, row.images, row.rows_through_trunk, row.weights, row.operations)
    return [f"{row.seconds:.2f}", *("" if count is None else f"{count:.0f}" for count in counts)]


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
