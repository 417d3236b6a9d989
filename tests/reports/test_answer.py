"""The answer above the table: which method to use, ties, whether training pays, and how to reduce uncertainty."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from made_runs import class_means, planned, write_run
from rich.console import Console

from levelfield.evaluation.statistics import Needed
from levelfield.reports.leaderboard.answer import advice, answer
from levelfield.reports.leaderboard.tables import as_markdown, explanation, show
from levelfield.reports.leaderboard.verdicts import verdicts
from levelfield.studies.leaderboard.board import Leaderboard, gather
from levelfield.training import Conditions


def board_of(folder: Path, levels: dict[str, float], metrics: tuple[str, ...] = ("recall@1", "map@r")) -> Leaderboard:
    runs = planned(list(levels), seeds=2)
    for run in runs:
        steps = 0 if run.label in ("lda", "untrained") else 5
        write_run(run, folder, class_means(levels[run.label], seed=run.spec.seed), steps=steps)
    return gather("made", runs, folder, metrics)


def test_training_that_pays_is_said_with_its_gain(tmp_path: Path) -> None:
    board = board_of(tmp_path, {"untrained": 0.4, "margin": 0.7, "triplet": 0.5})
    use, training = answer(board)
    assert use.startswith("Use margin: 7 of 10 nearest images are of the right class (recall@1 0.")
    assert training.startswith("Training pays: margin is 0.300 above untrained (95 % +")
    assert not advice(board, Conditions())


def test_training_that_does_not_pay_is_said_plainly(tmp_path: Path) -> None:
    board = board_of(tmp_path, {"untrained": 0.7, "margin": 0.5})
    use, training = answer(board)
    assert use.startswith("Use untrained: 7 of 10")
    assert training.startswith("Training does not pay here: margin is 0.200 below untrained")


def test_a_tie_is_said_to_be_as_good_and_what_would_resolve_it(tmp_path: Path) -> None:
    board = board_of(tmp_path, {"untrained": 0.6, "margin": 0.6})
    assert board.answer.label == "untrained", "of equal figures the one that needs no training"
    [one] = board.comparisons
    board = replace(board, comparisons=[replace(one, missing="classes", needed_classes=Needed(80, 30, None))])
    _, as_good, training = answer(board)
    assert as_good == "As good (not distinguishable on these test classes): margin."
    assert training.startswith("Training does not pay here (no significant difference): margin and ")
    assert "have the same score" in training
    three = board_of(tmp_path / "three", {"lda": 0.3, "margin": 0.6, "triplet": 0.6})
    tie = three.comparison("margin", "triplet")
    assert tie is not None
    changed = [replace(one, missing="classes", needed_classes=Needed(80, 30, None)) for one in three.comparisons]
    surer = answer(replace(three, comparisons=changed))[-1]
    assert surer.startswith("To be more certain: 80 classes (95 %: 30 or more) to distinguish it from ")


def test_a_gain_that_no_test_supports_is_left_open(tmp_path: Path) -> None:
    board = board_of(tmp_path, {"untrained": 0.4, "margin": 0.7})
    [one] = board.comparisons
    tie = replace(one, adjusted=0.2)
    told = answer(replace(board, comparisons=[tie]))[2]
    assert told.startswith("40 test classes cannot show whether training pays: margin is 0.300 above untrained")
    few = replace(one.seen_from("untrained"), classes=4, low=None, high=None, t=None, df=None, p=None, adjusted=None)
    told = answer(replace(board, comparisons=[few]))[2]
    assert told == "4 test classes cannot show whether training pays: margin is 0.300 above untrained."


def test_one_seed_speaks_of_these_runs(tmp_path: Path) -> None:
    runs = planned(["untrained", "margin"], seeds=1)
    for run, level in zip(runs, (0.4, 0.7), strict=True):
        write_run(run, tmp_path, class_means(level), steps=0 if run.label == "untrained" else 5)
    board = gather("made", runs, tmp_path, ("recall@1",))
    assert answer(board)[1].startswith("Training pays in these runs (training was not repeated): margin is 0.300")
    assert explanation(board)[0].startswith("Interval: 95 %, over other test classes. sd:")
    assert "1 more row with --full" in verdicts(board, full=False)[-1]


def test_each_test_set_has_an_answer_of_its_own(tmp_path: Path) -> None:
    board = board_of(tmp_path, {"untrained": 0.4, "margin": 0.7, "triplet": 0.5})
    moved = [replace(row, test_set="cars") if row.label == "triplet" else row for row in board.rows]
    told = answer(replace(board, rows=moved))
    assert told[0].startswith("emoji: Use margin")
    assert told[-1].startswith("cars: Use triplet")


def test_runs_that_kept_their_start_are_counted(tmp_path: Path) -> None:
    board = replace(board_of(tmp_path, {"untrained": 0.7, "margin": 0.5}), facts={"kept_start": (2, 3)})
    assert answer(board)[1].endswith("In 2 of 3 runs no step was better than the start on the validation classes.")


def test_advice_looks_at_the_conditions(tmp_path: Path) -> None:
    board = board_of(tmp_path, {"untrained": 0.7, "margin": 0.5})
    assert "conditions.cut=last-2" in advice(board, Conditions())
    assert "already trains" in advice(board, Conditions(cut="last-2"))
    assert not advice(board_of(tmp_path / "alone", {"margin": 0.5}), Conditions())


def test_the_answer_comes_first_on_the_screen_and_in_the_file(tmp_path: Path) -> None:
    board = board_of(tmp_path, {"untrained": 0.4, "margin": 0.7, "triplet": 0.5})
    for full in (True, False):
        console = Console(width=100, file=io.StringIO())
        show(board, console, full=full)
        text = console.file.getvalue()  # type: ignore[attr-defined]
        assert text.index("Use margin") < text.index("best first by")
        assert ("- triplet: better than" in text) == full
        assert ("2 more rows with --full" in text) == (not full)
    assert as_markdown(board).index("Use margin") < as_markdown(board).index("| #")


def test_another_metric_is_given_by_its_name(tmp_path: Path) -> None:
    board = board_of(tmp_path, {"margin": 0.7}, metrics=("map@r",))
    assert answer(board)[0].startswith("Use margin: map@r 0.")


def test_a_metric_without_values_per_query_is_said_to_be_untested(tmp_path: Path) -> None:
    told = answer(board_of(tmp_path, {"margin": 0.7, "triplet": 0.5}, metrics=("nmi",)))
    assert told[1:] == ["Ties are not tested: nmi has no value per query."]


def test_a_row_of_one_run_beside_rows_of_several_is_named(tmp_path: Path) -> None:
    runs = [
        run
        for run in planned(["margin", "triplet", "contrastive"], seeds=2)
        if run.label != "triplet" or run.spec.seed == 0
    ]
    for run in runs:
        write_run(run, tmp_path, class_means(0.5 + len(run.label) / 100, seed=run.spec.seed))
    told = verdicts(gather("made", runs, tmp_path, ("recall@1",)))
    assert told[1].startswith("One run only: triplet. Comparisons with it hold only for that run")
