"""Whether fine-tuning beats the frozen network, in words that are no stronger than the test."""

from __future__ import annotations

from levelfield.reports.leaderboard.comparisons import difference_text, how_compared
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.fine_tuning import OPEN, FineTuning, fine_tuning
from levelfield.studies.leaderboard.limits import needed_text


def fine_tuning_lines(board: Leaderboard) -> list[str]:
    """One line for each network and one for all; empty if the study does not ask."""
    found = fine_tuning(board)
    if not found:
        return []
    lines = [f"Does fine-tuning beat the frozen network? {_sentence(one, len(found))}" for one in found[:1]]
    lines += [_sentence(one, len(found)) for one in found[1:]]
    return [*lines, how_compared(board)]


def _sentence(one: FineTuning, count: int) -> str:
    where = "" if count == 1 else f"With {one.backbone}: " if one.backbone else "Over all networks: "
    pair, verdict = one.comparison, one.verdict
    these = "" if pair.retrained or verdict == OPEN else ", in these runs (training was not repeated)"
    verdict = verdict if where else verdict[0].upper() + verdict[1:]
    first, second = (label.removesuffix(f" [backbone={one.backbone}]") for label in (pair.first, pair.second))
    details = [difference_text(pair, first, second)]
    details += [f"95 % {pair.low:+.3f} to {pair.high:+.3f}"] if pair.low is not None else []
    numbers = needed_text(pair, brief=True) if one.verdict == OPEN else ""
    details += [f"{numbers} would resolve it"] if numbers else []
    return f"{where}{verdict}{these} ({'; '.join(details)})."
