"""Does training a part of the network beat the frozen network? By the same tests as the rest of the leaderboard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from levelfield.evaluation.statistics import Comparison
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.rows import Row

YES, NO, OPEN = "yes", "no", "cannot be told"


@dataclass(frozen=True)
class FineTuning:
    """The best row whose network trained against the best row whose network did not. backbone: "" for all networks."""

    backbone: str
    comparison: Comparison

    @property
    def verdict(self) -> str:
        """`yes` and `no` need a significant difference; everything else cannot be told."""
        one = self.comparison
        return OPEN if one.winner is None else YES if one.winner == one.first else NO


def fine_tuning(board: Leaderboard) -> list[FineTuning]:
    """The answer for each network that has both kinds of trained rows, then over all of them if there are several.

    Rows that train nothing belong to the frozen network. Empty if no network has a trained head and a trained stage.
    The rows are chosen by their test scores; comparisons are corrected for all pairs of rows, so for this choice, too.
    """
    rows = [row for row in board.rows if row.test_set == board.rows[0].test_set and row.cut]
    names = dict.fromkeys(row.backbone for row in rows)
    asked = {name: own for name in names if _asks(own := [row for row in rows if row.backbone == name])}
    if not asked:
        return []
    groups = {**asked, "": [row for own in asked.values() for row in own]} if len(asked) > 1 else asked
    comparisons = {name: _compared(board, own) for name, own in groups.items()}
    return [FineTuning(name, one) for name, one in comparisons.items() if one is not None]


def _asks(rows: Sequence[Row]) -> bool:
    """Whether one row trained a head on the frozen network and another one trained the network."""
    return {row.cut == "frozen" for row in rows if row.trained} == {True, False}


def _compared(board: Leaderboard, rows: Sequence[Row]) -> Comparison | None:
    tuned = next(row for row in rows if row.cut != "frozen")  # rows are sorted, best first
    frozen = next(row for row in rows if row.cut == "frozen")
    return board.comparison(tuned.label, frozen.label)
