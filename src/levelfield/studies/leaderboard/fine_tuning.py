"""Does training a part of the network beat the frozen network? By the same tests as the rest of the leaderboard."""

from __future__ import annotations

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
    groups: dict[str, list[Row]] = {}
    for row in board.rows:
        if row.test_set == board.rows[0].test_set and row.cut:
            groups.setdefault(row.backbone, []).append(row)
    trained = {name: {row.cut == "frozen" for row in rows if row.trained} for name, rows in groups.items()}
    groups = {name: rows for name, rows in groups.items() if trained[name] == {True, False}}
    if len(groups) > 1:
        groups[""] = [row for row in board.rows if any(row in rows for rows in groups.values())]
    answers = []
    for name, rows in groups.items():  # sorted, best first
        tuned, frozen = (next(row for row in rows if (row.cut == "frozen") == is_frozen) for is_frozen in (False, True))
        comparison = board.comparison(tuned.label, frozen.label)
        if comparison is not None:
            answers.append(FineTuning(name, comparison))
    return answers
