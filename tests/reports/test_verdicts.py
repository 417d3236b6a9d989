"""The answer above the leaderboard, the comparisons below it, and whether fine-tuning pays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from made_runs import CLASSES, board_of, class_means, planned, printed, write_run

from levelfield.evaluation.statistics.comparisons import Comparison
from levelfield.evaluation.statistics.needed import Needed
from levelfield.reports.leaderboard import verdicts as comparisons
from levelfield.reports.leaderboard.answer import advice, answer, fine_tuning_lines
from levelfield.reports.leaderboard.cells import front_lines
from levelfield.reports.leaderboard.tables import as_csv, as_markdown, explanation, show
from levelfield.reports.leaderboard.verdicts import how_compared, pairs_table, verdicts
from levelfield.studies.leaderboard.board import Leaderboard, fine_tuning, gather
from levelfield.training import Conditions


@pytest.fixture(scope="module")
def gain(tmp_path_factory: pytest.TempPathFactory) -> Leaderboard:
    """Training pays."""
    return board_of(tmp_path_factory.mktemp("gain"), {"untrained": 0.4, "margin": 0.7, "triplet": 0.5})


@pytest.fixture(scope="module")
def loss(tmp_path_factory: pytest.TempPathFactory) -> Leaderboard:
    """Training does not pay."""
    return board_of(tmp_path_factory.mktemp("loss"), {"untrained": 0.7, "margin": 0.5})


HEAD = "a head on the frozen network"
STILL = "The network itself did not train."


def test_training_that_pays_is_said_with_its_gain(gain: Leaderboard) -> None:
    use, training = answer(gain)
    assert use.startswith("Use margin: 7 of 10 nearest images are of the right class (recall@1 0.")
    assert training.startswith(f"Training {HEAD} pays: margin is 0.300 above untrained (95 % +")
    assert not advice(gain, Conditions())


def test_training_that_does_not_pay_is_said_plainly_with_advice(loss: Leaderboard, tmp_path: Path) -> None:
    use, training = answer(loss)
    assert use.startswith("Use untrained: 7 of 10")
    assert training.startswith(f"Training {HEAD} does not pay here: margin is 0.200 below untrained")
    kept = answer(replace(loss, facts={"kept_start": (2, 3)}))[1]
    assert kept.endswith(f"In 2 of 3 runs no step was better than the start on the validation classes. {STILL}")
    assert "conditions.cut=last-2" in advice(loss, Conditions())
    assert "already trains" in advice(loss, Conditions(cut="last-2"))
    assert not advice(board_of(tmp_path, {"margin": 0.5}), Conditions())


def test_a_tie_is_said_to_be_as_good_and_what_would_resolve_it(tmp_path: Path) -> None:
    board = board_of(tmp_path, {"untrained": 0.6, "margin": 0.6})
    assert board.recommended.label == "untrained", "of equal figures the one that needs no training"
    [one] = board.comparisons
    needed: dict[str, Any] = {"missing": "classes", "needed_classes": Needed(80, 30, None)}
    _, as_good, training = answer(replace(board, comparisons=[replace(one, **needed)]))
    assert as_good == "As good (not distinguishable on these test classes): margin."
    assert training.startswith(f"Training {HEAD} does not pay here (no significant difference): margin and ")
    assert "have the same score" in training
    three = board_of(tmp_path / "three", {"lda": 0.3, "margin": 0.6, "triplet": 0.6})
    surer = answer(replace(three, comparisons=[replace(one, **needed) for one in three.comparisons]))[-1]
    assert surer.startswith("To be more certain: 80 classes (95 %: 30 or more) to distinguish it from ")


def test_a_gain_that_no_test_supports_is_left_open(tmp_path: Path) -> None:
    board = board_of(tmp_path, {"untrained": 0.4, "margin": 0.7})
    [one] = board.comparisons
    text = answer(replace(board, comparisons=[replace(one, adjusted=0.2)]))[2]
    assert text.startswith(f"40 test classes cannot show whether training {HEAD} pays: margin is 0.300 above untrained")
    few = replace(one.seen_from("untrained"), classes=4, low=None, high=None, t=None, df=None, p=None, adjusted=None)
    text = answer(replace(board, comparisons=[few]))[2]
    assert text == f"4 test classes cannot show whether training {HEAD} pays: margin is 0.300 above untrained. {STILL}"


def test_one_seed_speaks_of_these_runs(tmp_path: Path) -> None:
    board = board_of(tmp_path, {"untrained": 0.4, "margin": 0.7}, ("recall@1",), seeds=1)
    assert answer(board)[1].startswith(
        f"Training {HEAD} pays in these runs (training was not repeated): margin is 0.300"
    )
    assert explanation(board)[0].startswith("Interval: 95 %, over other test classes. sd:")
    assert "1 more row with --full" in verdicts(board, full=False)[-1]


def test_each_test_set_has_an_answer_of_its_own(gain: Leaderboard) -> None:
    moved = [replace(row, test_set="cars") if row.label == "triplet" else row for row in gain.rows]
    lines = answer(replace(gain, rows=moved))
    assert lines[0].startswith("emoji: Use margin")
    assert lines[-1].startswith("cars: Use triplet")


def test_the_answer_comes_first_on_the_screen_and_in_the_file(gain: Leaderboard) -> None:
    for full in (True, False):
        text = printed(show, gain, full=full, width=100)
        assert text.index("Use margin") < text.index("best first by")
        assert ("- triplet: better than" in text) == full
        assert ("2 more rows with --full" in text) == (not full)
    assert as_markdown(gain).index("Use margin") < as_markdown(gain).index("| #")


def test_a_metric_is_named_and_one_without_values_per_query_is_untested(tmp_path: Path) -> None:
    assert answer(board_of(tmp_path / "a", {"margin": 0.7}, ("map@r",)))[0].startswith("Use margin: map@r 0.")
    lines = answer(board_of(tmp_path / "b", {"margin": 0.7, "triplet": 0.5}, ("nmi",)))
    assert lines[1:] == ["Ties are not tested: nmi has no value per query."]


def test_a_row_of_one_run_beside_rows_of_several_is_named(tmp_path: Path) -> None:
    runs = planned(["margin", "triplet", "contrastive"], seeds=2)
    runs = [run for run in runs if run.label != "triplet" or run.spec.seed == 0]
    for run in runs:
        write_run(run, tmp_path, class_means(0.5 + len(run.label) / 100, seed=run.spec.seed))
    lines = verdicts(gather("made", runs, tmp_path, ("recall@1",)))
    assert lines[1].startswith("One run only: triplet. Comparisons with it hold only for that run")


SURE = Comparison("a", "b", 0.02, 0.01, 0.03, 4.0, 30.0, 0.0001, 0.0003, 50, (3, 3), True)
TIE = Comparison("a", "c|d", -0.1, -0.2, 0.05, -1.5, 12.0, 0.4, 0.8, 50, (3, 3), True, "seeds", Needed(9, 4, None))
UNTESTED = Comparison("b", "c|d", -0.1, None, None, None, None, None, None, 50, (3, 3), True)


def compared(*pairs: Comparison) -> Any:
    return SimpleNamespace(comparisons=list(pairs), metrics=["recall@1"])


def test_each_pair_has_a_line_with_the_better_row_first(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pairs_table(compared(SURE, TIE, UNTESTED))
    sure, tie, untested = table.markdown().splitlines()[2:]
    assert sure == "| a > b | 0.020 | +0.010 to +0.030 | 4.00 | 30.0 | < 0.001 | better |  |"
    assert tie == "| c\\|d > a | 0.100 | -0.050 to +0.200 | 1.50 | 12.0 | 0.800 | tie | 9 seeds (95 %: 4 or more) |"
    unknown = " | ".join(["not known"] * 4)
    assert untested == f"| c\\|d > b | 0.100 | {unknown} | tie | not known |"
    monkeypatch.setattr(comparisons, "MOST_PAIRS", 1)
    clearest = pairs_table(compared(TIE, UNTESTED, SURE))
    assert clearest.markdown().splitlines()[2].startswith("| a > b |")
    assert clearest.notes == ["2 more pairs are in leaderboard.json."]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, "Crossed test of recall@1 over 50 test classes and 3 seeds, Holm-corrected over 1 pair, 5 % in all."),
        (
            {"retrained": False},
            "Test of recall@1 over 50 test classes (training was not repeated: this holds only for "
            "these runs), Holm-corrected over 1 pair, 5 % in all.",
        ),
        ({"classes": 4}, "4 test classes: too few for a test (at least 5 are needed)."),
    ],
)
def test_the_test_is_named_in_one_sentence(change: dict[str, Any], text: str) -> None:
    assert how_compared(compared(replace(SURE, **change))) == text


METHODS: list[Any] = [
    "untrained",
    {"label": "head", "contrastive": {}},
    {"label": "last stage", "contrastive": {"conditions": {"cut": "last-1"}}},
]
OPERATIONS = {"small": 40e6, "large": 90e6}
ONE = {"untrained": 0.4, "head": 0.5, "last stage": 0.6}


def networks(
    folder: Path, levels: dict[str, dict[str, float]], *, seeds: int = 3, methods: Any = METHODS
) -> Leaderboard:
    """A study that varies its network. levels: recall@1 by network and label, the same noise for all."""
    runs = planned(methods, seeds=seeds, vary={"conditions.backbone": list(levels)})
    noise = np.random.default_rng(0).normal(0, 0.05, CLASSES)
    for run in runs:
        network, trains = dict(run.variation)["conditions.backbone"], run.label != "untrained"
        own = np.random.default_rng(run.spec.seed + len(run.label)).normal(0, 0.01, CLASSES)
        level = np.clip(levels[network][run.label] + noise + own, 0, 1)
        cost = {"weights": 1_000_000, "operations": int(OPERATIONS[network])}
        write_run(run, folder, level, steps=10 if trains else 0, **cost)
    return gather("made", runs, folder, ("recall@1", "nmi"))


def test_yes_no_and_cannot_be_told_follow_the_test(tmp_path: Path) -> None:
    board = networks(tmp_path / "clear", {"small": ONE, "large": {"untrained": 0.4, "head": 0.6, "last stage": 0.5}})
    lines = fine_tuning_lines(board)
    assert lines[0].startswith("Does fine-tuning beat the frozen network? With ")
    text = " ".join(lines)
    assert "With small: yes (last stage is 0.1" in text
    assert "With large: no (last stage is 0.1" in text
    assert "below head; 95 % -0." in text
    assert "Over all networks: " in text
    assert lines[-1].startswith("Crossed test of recall@1 over 40 test classes and 3 seeds, Holm-corrected over 15 ")
    assert all(line in answer(board) for line in lines)
    equal = networks(tmp_path / "equal", {"small": {"untrained": 0.4, "head": 0.5, "last stage": 0.501}})
    assert [pair.winner for pair in fine_tuning(equal).values()] == [None]
    start = "Does fine-tuning beat the frozen network? Cannot be told (last stage "
    assert fine_tuning_lines(equal)[0].startswith(start)


def test_the_frozen_side_is_its_best_row_and_a_study_without_both_sides_does_not_ask(tmp_path: Path) -> None:
    board = networks(tmp_path / "a", {"small": {"untrained": 0.7, "head": 0.5, "last stage": 0.6}})
    [pair] = fine_tuning(board).values()
    assert pair.second == pair.winner == "untrained [backbone=small]"
    for name, methods in (("b", METHODS[:2]), ("c", [METHODS[0], METHODS[2]])):
        assert fine_tuning_lines(networks(tmp_path / name, {"small": ONE}, methods=methods)) == []
    once = networks(tmp_path / "d", {"small": ONE}, seeds=1)
    assert "Yes, in these runs (training was not repeated) (" in fine_tuning_lines(once)[0]


def test_what_a_network_costs_is_beside_its_score_if_networks_differ(tmp_path: Path) -> None:
    board = networks(tmp_path / "two", {"small": ONE, "large": {**ONE, "last stage": 0.7}})
    assert "MFLOP/image" in as_markdown(board)
    assert "MFLOP" in printed(show, board, width=120)
    assert "operations" in as_csv(board).splitlines()[0]
    front = next(line for line in front_lines(board) if "operations per image" in line)
    assert front.endswith(": last stage [backbone=small], last stage [backbone=large].")
    same = networks(tmp_path / "one", {"small": ONE})
    assert "MFLOP" not in as_markdown(same)
    assert not any("operations" in line for line in front_lines(same))
