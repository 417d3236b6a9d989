"""What a figure costs, and which rows are worth their cost."""

from __future__ import annotations

from collections.abc import Sequence

from levelfield.studies.rows import Row

COSTS = {"seconds": "seconds", "peak_bytes": "peak memory", "rows_through_trunk": "rows through the trunk"}


def front(rows: Sequence[Row], cost: str, metric: str) -> list[str]:
    """Labels of the rows that no other beats or equals for less, nor beats for the same; cheapest first.

    The rows are of one test set. What trains nothing costs nothing here. A row whose cost is not known is left out.

    >>> from levelfield.studies.rows import Cell
    >>> row = lambda label, value, seconds: Row(label, seconds > 0, [0], {"nmi": Cell(value)}, seconds, [], [], {}, "")
    >>> front([row("a", 0.7, 9), row("b", 0.6, 4), row("c", 0.6, 5), row("start", 0.5, 0)], "seconds", "nmi")
    ['start', 'b', 'a']
    """
    known = [(paid, row.cells[metric].mean, row.label) for row in rows if (paid := paid_for(row, cost)) is not None]
    kept: list[str] = []
    best, price = float("-inf"), -1.0
    for paid, value, label in sorted(known, key=lambda one: (one[0], -one[1])):
        if value > best or (value == best and paid == price):
            kept.append(label)
            best, price = value, paid
    return kept


def paid_for(row: Row, cost: str) -> float | None:
    """What the row cost to train; None if that is not known."""
    paid: float | None = getattr(row, cost)
    return paid if row.trained else 0.0
