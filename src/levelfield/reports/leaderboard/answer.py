"""The answer of a leaderboard in a few sentences: which method to use, which are as good, whether training pays."""

from __future__ import annotations

from dataclasses import replace

from levelfield.evaluation.statistics.comparisons import Comparison
from levelfield.evaluation.statistics.crossed import MIN_CLASSES
from levelfield.reports.leaderboard import cells
from levelfield.reports.leaderboard.verdicts import MIN_VISIBLE_DIFFERENCE, difference_text, how_compared
from levelfield.studies.leaderboard.board import Leaderboard, fine_tuning
from levelfield.studies.leaderboard.claims import OPEN, needed_text
from levelfield.studies.leaderboard.rows import Row
from levelfield.training import Conditions
from levelfield.wording import first_few

UNTRIED = " The network itself did not train."
_SHOWN = 6  # maximum number of named rows


def answer(board: Leaderboard) -> list[str]:
    """The sentences, most important first."""
    sets = dict.fromkeys(row.test_set for row in board.rows)
    if len(sets) > 1:  # scores on different test sets cannot be compared
        parts = {name: replace(board, rows=[row for row in board.rows if row.test_set == name]) for name in sets}
        return [f"{name}: {line}" for name, part in parts.items() for line in answer(part)]
    best = board.recommended
    ties = board.ties(best.label)
    lines = [_use(board, best), _as_good(board, [tie.second for tie in ties]), _training(board)]
    lines += fine_tuning_lines(board)
    widest = max(ties, key=lambda tie: tie.difference, default=None)
    if widest and not board.limit and (needed := needed_text(widest, brief=False)):
        lines.append(f"To be more certain: {needed} to distinguish it from {widest.second}.")
    return [line for line in lines if line]


def _use(board: Leaderboard, best: Row) -> str:
    metric = board.metrics[0]
    cell = best.cells[metric]
    figure = f"{metric} {cell.mean:.3f}" + (f", 95 % {cells.interval(cell)}" if cell.low is not None else "")
    if metric != "recall@1":
        return f"Use {best.label}: {figure}."
    share = f"{round(10 * cell.mean)} of 10" if 0.1 <= cell.mean <= 0.9 else f"{round(100 * cell.mean)} of 100"
    chosen = " Validation classes chose it." if board.facts.get("recipe", {}).get("best") == best.label else ""
    return f"Use {best.label}: {share} nearest images are of the right class ({figure}).{chosen}"


def _as_good(board: Leaderboard, tied: list[str]) -> str:
    if len(board.rows) > 1 and not board.comparisons:
        return f"Ties are not tested: {board.metrics[0]} has no value per query."
    if not tied:
        return ""
    return f"As good (not distinguishable on these test classes): {first_few(tied, most=_SHOWN)}."


def _training(board: Leaderboard) -> str:
    """Whether the best trained row is better than the best untrained one."""
    gain = board.training_gain
    if gain is None:
        return ""
    within = ""
    if gain.low is not None and abs(gain.difference) >= MIN_VISIBLE_DIFFERENCE:
        within = f" (95 % {gain.low:+.3f} to {gain.high:+.3f})"
    details = f"{difference_text(gain)}{within}."
    kept, total = board.facts.get("kept_start", (0, 0))
    if kept:
        details += f" In {kept} of {total} runs no step was better than the start on the validation classes."
    these = "" if gain.retrained else " in these runs (training was not repeated)"
    training = _trained_part(board.best_trained)
    if gain.winner == gain.first:
        return f"{training} pays{these}: {details}"
    untried = UNTRIED if board.best_trained.cut == "frozen" else ""
    if "recipe" in board.facts and board.recommended.trained:  # the test classes chose nothing
        seen = "say otherwise" if gain.winner == gain.second else "cannot confirm it"
        return f"{training} pays on the validation classes, but the test classes {seen}{these}: {details}"
    if gain.winner == gain.second:
        return f"{training} does not pay here{these}: {details}{untried}"
    if gain.classes < MIN_CLASSES or gain.difference >= MIN_VISIBLE_DIFFERENCE:
        tested = f"{gain.classes} test class{'es' * (gain.classes != 1)}"
        return f"{tested} cannot show whether {training[0].lower()}{training[1:]} pays: {details}{untried}"
    return f"{training} does not pay here (no significant difference): {details}{untried}"


def _trained_part(row: Row) -> str:
    """What trained in a row, as the subject of a sentence.

    >>> from types import SimpleNamespace
    >>> [_trained_part(SimpleNamespace(cut=cut)) for cut in ("frozen", "last-2", "tuned")]
    ['Training a head on the frozen network', 'Training the last 2 stages of the network', 'Training the network']
    """
    if row.cut.startswith("last-"):
        count = row.cut.removeprefix("last-")
        return f"Training the last {f'{count} stages' if count != '1' else 'stage'} of the network"
    return {"frozen": "Training a head on the frozen network", "tuned": "Training the network"}.get(row.cut, "Training")


def advice(board: Leaderboard, conditions: Conditions) -> str:
    """If training does not pay: a suggestion for what to try next."""
    gain = board.training_gain
    if gain is None or gain.winner == gain.first:
        return ""
    if conditions.cut == "frozen" and all(row.cut in ("", "frozen") for row in board.rows):
        return (
            "To train the network itself: conditions.cut=last-2 conditions.augment=light conditions.views=4, or for "
            "photos levelfield compare --data FOLDER. More classes help, too."
        )
    return "Part of the network already trains. More classes, or more images per class, would help training."


def fine_tuning_lines(board: Leaderboard) -> list[str]:
    """Whether fine-tuning beats the frozen network, for each network and for all; empty if the study does not ask."""
    answers = fine_tuning(board)
    if not answers:
        return []
    first, *others = (_fine_tuning_sentence(backbone, pair, len(answers)) for backbone, pair in answers.items())
    return [f"Does fine-tuning beat the frozen network? {first}", *others, how_compared(board)]


def _fine_tuning_sentence(backbone: str, pair: Comparison, count: int) -> str:
    where = "" if count == 1 else f"With {backbone}: " if backbone else "Over all networks: "
    verdict = OPEN if pair.winner is None else "yes" if pair.winner == pair.first else "no"
    numbers = needed_text(pair, brief=True) if verdict == OPEN else ""
    these = "" if pair.retrained or verdict == OPEN else ", in these runs (training was not repeated)"
    verdict = verdict if where else verdict[0].upper() + verdict[1:]
    first, second = (label.removesuffix(f" [backbone={backbone}]") for label in (pair.first, pair.second))
    details = [difference_text(pair, first, second)]
    details += [f"95 % {pair.low:+.3f} to {pair.high:+.3f}"] if pair.low is not None else []
    details += [pair.only_alone] if pair.only_alone else []
    details += [f"{numbers} would resolve it"] if numbers else []
    return f"{where}{verdict}{these} ({'; '.join(details)})."
