"""Comparisons between rows, in words and as a table of all pairs."""

from __future__ import annotations

from levelfield.evaluation.statistics import ALPHA, MIN_CLASSES, Comparison
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.limits import needed_text

HEAD = ("pair", "difference", "95 % interval", "t", "df", "p (Holm)", "verdict", "would resolve it")
SEEN = 0.0005  # a difference below this is printed as 0.000
MOST_PAIRS = 1000  # in leaderboard.md; leaderboard.json has all pairs


def how_compared(board: Leaderboard) -> str:
    """How the rows were compared.

    >>> from types import SimpleNamespace
    >>> one = Comparison("a", "b", 0.1, 0.05, 0.15, 4.0, 90.0, 0.001, 0.001, 774, (3, 3), True)
    >>> how_compared(SimpleNamespace(comparisons=[one], metrics=["recall@1"]))
    'Crossed test of recall@1 over 774 test classes and 3 seeds, Holm-corrected over 1 pair, 5 % in all.'
    """
    pairs = board.comparisons
    classes = _span([one.classes for one in pairs])
    if max(one.classes for one in pairs) < MIN_CLASSES:
        return f"{classes} test classes: too few for a test (at least {MIN_CLASSES} are needed)."
    sample = f"{classes} test classes"
    tried = [max(one.seeds) for one in pairs if one.retrained]
    sample += f" and {_span(tried)} seeds" if tried else " (training was not repeated: this holds only for these runs)"
    number = f"{len(pairs):,} pair{'s' * (len(pairs) != 1)}"
    kind = "Crossed test" if tried else "Test"
    return f"{kind} of {board.metrics[0]} over {sample}, Holm-corrected over {number}, {100 * ALPHA:.0f} % in all."


def difference_text(one: Comparison, first: str = "", second: str = "") -> str:
    """The difference between two rows in words. first, second: how to call them, by default their labels.

    >>> difference_text(Comparison("a", "b", -0.1, None, None, None, None, None, None, 9, (1, 1), False), second="c")
    'a is 0.100 below c'
    """
    first, second = first or one.first, second or one.second
    if abs(one.difference) < SEEN:
        return f"{first} and {second} have the same score"
    return f"{first} is {abs(one.difference):.3f} {'above' if one.difference > 0 else 'below'} {second}"


def comparisons_markdown(board: Leaderboard) -> list[str]:
    """One line per pair, the better row first; at most MOST_PAIRS, those with the clearest differences."""
    if not board.comparisons:
        return []
    shown = board.comparisons
    if len(shown) > MOST_PAIRS:
        shown = sorted(shown, key=lambda one: (1.0 if one.p is None else one.p, -abs(one.difference)))[:MOST_PAIRS]
    lines = ["", "| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    lines += ["| " + " | ".join(_fields(one)) + " |" for one in shown]
    left = len(board.comparisons) - len(shown)
    return lines + (["", f"{left:,} more pairs are in leaderboard.json."] if left else [])


def _fields(one: Comparison) -> list[str]:
    one = one if one.difference >= 0 else one.seen_from(one.second)
    known = one.low is not None and one.high is not None and one.t is not None and one.df is not None
    numbers = [f"{one.low:+.3f} to {one.high:+.3f}", f"{one.t:.2f}", f"{one.df:.1f}"] if known else ["not known"] * 3
    return [
        f"{one.first} > {one.second}".replace("|", "\\|"),
        f"{abs(one.difference):.3f}",
        *numbers,
        _p(one.adjusted),
        "better" if one.better() else "tie",
        "" if one.better() else needed_text(one) or "not known",
    ]


def _span(numbers: list[int]) -> str:
    """One number, or the smallest and the largest."""
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def _p(value: float | None) -> str:
    """Format a p-value.

    >>> _p(0.00012), _p(0.5), _p(None)
    ('< 0.001', '0.500', 'not known')
    """
    return "not known" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
