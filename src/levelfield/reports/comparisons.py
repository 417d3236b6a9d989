"""All pairs of a leaderboard as a table: over test classes, over seeds, and how many seeds would settle them."""

from __future__ import annotations

from levelfield.studies.leaderboard import Leaderboard
from levelfield.studies.statistics import Comparison

HEAD = ("pair", "difference", "95 % over classes", "p (classes)", "p (seeds)", "seeds needed")


def comparisons_markdown(board: Leaderboard) -> list[str]:
    """A line for each pair, the better row first. Both p are Holm-corrected over all pairs; '-': not known."""
    if not board.comparisons:
        return []
    lines = ["", "| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    lines += ["| " + " | ".join(_fields(one)) + " |" for one in board.comparisons]
    return [
        *lines, "",
        "p (classes): would other test classes of the same kind say the same? p (seeds): would training again? "
        "Seeds needed: for the second to be below 5 % for this pair alone.",
    ]  # fmt: skip


def _fields(one: Comparison) -> list[str]:
    sign = 1 if one.difference >= 0 else -1
    first, second = (one.first, one.second) if sign > 0 else (one.second, one.first)
    low, high = sorted((sign * one.low, sign * one.high))
    return [
        f"{first} > {second}".replace("|", "\\|"),
        f"{abs(one.difference):.3f}",
        f"{low:+.3f} to {high:+.3f}",
        _p(one.adjusted),
        _p(one.adjusted_seeds),
        "-" if one.seeds is None else str(one.seeds),
    ]


def _p(value: float | None) -> str:
    """A chance, as far as anybody wants to know it.

    >>> _p(0.00012), _p(0.5), _p(None)
    ('< 0.001', '0.500', '-')
    """
    return "-" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
