"""Comparisons between the rows of a leaderboard: in words, and as a table of all pairs."""

from __future__ import annotations

from levelfield.evaluation.statistics.comparisons import ALPHA, Comparison
from levelfield.evaluation.statistics.crossed import MIN_CLASSES
from levelfield.reports.leaderboard.cells import UNKNOWN
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.claims import needed_text
from levelfield.table import Column, Table, numbers
from levelfield.wording import first_few, plural

HEADINGS = ("difference", "95 % interval", "t", "df", "p (Holm)")
MIN_VISIBLE_DIFFERENCE = 0.0005  # a difference below this is printed as 0.000
MOST_PAIRS = 1000  # in leaderboard.md; leaderboard.json has all pairs
_ROWS, _LABELS, _SHOWN = 40, 12, 6  # limits of the text; the JSON file has everything


def how_compared(board: Leaderboard) -> str:
    """How the rows were compared: the test, its classes and seeds, and the correction."""
    pairs = board.comparisons
    classes = _span([pair.classes for pair in pairs])
    if max(pair.classes for pair in pairs) < MIN_CLASSES:
        return f"{classes} test classes: too few for a test (at least {MIN_CLASSES} are needed)."
    sample = f"{classes} test classes"
    tried = [max(pair.seeds) for pair in pairs if pair.retrained]
    sample += f" and {_span(tried)} seeds" if tried else " (training was not repeated: this holds only for these runs)"
    number = plural(len(pairs), "pair", "pairs")
    kind = "Crossed test" if tried else "Test"
    return f"{kind} of {board.metrics[0]} over {sample}, Holm-corrected over {number}, {100 * ALPHA:.0f} % in all."


def difference_text(pair: Comparison, first: str = "", second: str = "") -> str:
    """The difference between two rows in words. first, second: how to call them, by default their labels."""
    first, second = first or pair.first, second or pair.second
    if abs(pair.difference) < MIN_VISIBLE_DIFFERENCE:
        return f"{first} and {second} have the same score"
    return f"{first} is {abs(pair.difference):.3f} {'above' if pair.difference > 0 else 'below'} {second}"


def pairs_table(board: Leaderboard) -> Table | None:
    """One line per pair, the better row first; at most MOST_PAIRS, those with the clearest differences."""
    if not board.comparisons:
        return None
    shown = board.comparisons
    if len(shown) > MOST_PAIRS:
        shown = sorted(shown, key=lambda pair: (1.0 if pair.p is None else pair.p, -abs(pair.difference)))[:MOST_PAIRS]
    hidden = len(board.comparisons) - len(shown)
    notes = [f"{hidden:,} more pairs are in leaderboard.json."] if hidden else []
    columns: list[Column | str] = ["pair", *numbers(*HEADINGS), "verdict", "would resolve it"]
    return Table(columns, [_pair(pair) for pair in shown], notes=notes)


def _pair(pair: Comparison) -> list[str]:
    pair = pair if pair.difference >= 0 else pair.seen_from(pair.second)
    test = [UNKNOWN] * 4
    if pair.adjusted is not None:
        p = "< 0.001" if pair.adjusted < 0.001 else f"{pair.adjusted:.3f}"
        test = [f"{pair.low:+.3f} to {pair.high:+.3f}", f"{pair.t:.2f}", f"{pair.df:.1f}", p]
    tie = f"tie: {pair.only_alone}" if pair.only_alone else "tie"
    verdict = ["better", ""] if pair.better() else [tie, needed_text(pair) or UNKNOWN]
    return [f"{pair.first} > {pair.second}", f"{abs(pair.difference):.3f}", *test, *verdict]


def verdicts(board: Leaderboard, *, full: bool = True) -> list[str]:
    """For each row, or only the first: which rows it is better than, which it ties with, and what would resolve ties
    with the best."""
    if not board.comparisons:
        return ["Nothing to compare: one row, or no metric with a value per query."]
    lines = [how_compared(board)]
    single = [row.label for row in board.rows if row.trained and len(row.seeds) == 1]
    if single and any(pair.retrained for pair in board.comparisons):
        names = ", ".join(single[:_LABELS])
        lines.append(
            f"One run only: {names}. Comparisons with it hold only for that run, since training was not repeated."
        )
    order = {row.label: rank for rank, row in enumerate(board.rows)}
    better: dict[str, list[str]] = {label: [] for label in order}
    tied: dict[str, list[str]] = {label: [] for label in order}
    for pair in board.comparisons:
        first, second = sorted((pair.first, pair.second), key=lambda label: order[label])
        if pair.winner is None:
            tied[first].append(second)
        else:
            better[pair.winner].append(second if pair.winner == first else first)
    shown = list(order)[: _ROWS if full else 1]
    for label in shown:
        parts = [f"tie with {_named(tied[label], order)}"] if tied[label] else []
        parts += [f"better than {_named(better[label], order)}"] if better[label] else []
        lines += [f"- {label}: {'; '.join(parts)}."] if parts else []
    if len(order) > len(shown):
        more = "in leaderboard.json" if full else "with --full and in leaderboard.md"
        lines.append(f"{plural(len(order) - len(shown), 'more row', 'more rows')} {more}.")
    advice = board.facts.get("advice", "")
    return lines + (_resolving(board) if full else []) + ([advice] if advice else [])


def _resolving(board: Leaderboard) -> list[str]:
    """What would resolve the ties with the best row, largest difference first."""
    best = board.rows[0].label
    ties = sorted((tie for tie in board.ties(best) if needed_text(tie)), key=lambda tie: -tie.difference)
    if not ties or board.limit:
        return []
    shown = "; ".join(f"{tie.second} {needed_text(tie)}" for tie in ties[:_SHOWN])
    more = f"; {len(ties) - _SHOWN} more in leaderboard.json" if len(ties) > _SHOWN else ""
    return [f"What would resolve a tie with {best}, with 80 % power: {shown}{more}."]


def _named(labels: list[str], order: dict[str, int]) -> str:
    """Labels in table order; a long list, or the whole tail of the table, is abbreviated."""
    labels = sorted(labels, key=lambda label: order[label])
    if len(labels) > 2 and order[labels[0]] == len(order) - len(labels):
        return f"{labels[0]} and all below it"
    return first_few(labels, most=_LABELS)


def _span(numbers: list[int]) -> str:
    """One number, or the smallest and the largest."""
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"
