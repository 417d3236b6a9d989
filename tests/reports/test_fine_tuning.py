"""Does fine-tuning beat the frozen network? The answer follows the test, and says which test."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from made_runs import CLASSES, planned, write_run
from rich.console import Console

from levelfield.reports.leaderboard.answer import answer, fine_tuning_lines
from levelfield.reports.leaderboard.cells import front_lines
from levelfield.reports.leaderboard.tables import as_csv, as_markdown, terminal
from levelfield.studies.leaderboard.board import Leaderboard, gather
from levelfield.studies.leaderboard.fine_tuning import fine_tuning

METHODS: list[Any] = [
    "untrained",
    {"label": "head", "contrastive": {}},
    {"label": "last stage", "contrastive": {"conditions": {"cut": "last-1"}}},
]
COST = {"small": 40e6, "large": 90e6}


def made(folder: Path, levels: dict[str, dict[str, float]], *, seeds: int = 3, methods: Any = METHODS) -> Leaderboard:
    """A study that varies its network. levels: recall@1 by network and label, the same noise for all."""
    runs = planned(methods, seeds=seeds, vary={"conditions.backbone": list(levels)})
    noise = np.random.default_rng(0).normal(0, 0.05, CLASSES)
    for run in runs:
        network, trains = dict(run.variation)["conditions.backbone"], run.label != "untrained"
        own = np.random.default_rng(run.spec.seed + len(run.label)).normal(0, 0.01, CLASSES)
        level = np.clip(levels[network][run.label] + noise + own, 0, 1)
        cost = {"weights": 1_000_000, "operations": int(COST[network])}
        write_run(run, folder, level, steps=10 if trains else 0, **cost)
    return gather("made", runs, folder, ("recall@1", "nmi"))


def test_yes_no_and_cannot_be_told_follow_the_test(tmp_path: Path) -> None:
    levels = {
        "small": {"untrained": 0.4, "head": 0.5, "last stage": 0.6},
        "large": {"untrained": 0.4, "head": 0.6, "last stage": 0.5},
    }
    board = made(tmp_path / "clear", levels)
    verdicts = {one.backbone: one.verdict for one in fine_tuning(board)}
    assert (verdicts["small"], verdicts["large"]) == ("yes", "no")
    lines = fine_tuning_lines(board)
    assert any(line.startswith("Does fine-tuning beat the frozen network? With ") for line in lines[:1])
    text = " ".join(lines)
    assert "With small: yes (last stage is 0.1" in text
    assert "With large: no (last stage is 0.1" in text
    assert "below head; 95 % -0." in text
    assert "Over all networks: " in text
    assert lines[-1] == (
        "Crossed test of recall@1 over 40 test classes and 3 seeds, Holm-corrected over 15 pairs, 5 % in all."
    )
    assert all(line in answer(board) for line in lines)
    equal = {"small": {"untrained": 0.4, "head": 0.5, "last stage": 0.501}}
    [found] = fine_tuning(made(tmp_path / "equal", equal))
    assert found.verdict == "cannot be told"
    assert fine_tuning_lines(made(tmp_path / "equal", equal))[0].startswith(
        "Does fine-tuning beat the frozen network? Cannot be told (last stage "
    )


def test_the_frozen_side_is_its_best_row_even_if_that_trains_nothing(tmp_path: Path) -> None:
    board = made(tmp_path, {"small": {"untrained": 0.7, "head": 0.5, "last stage": 0.6}})
    [found] = fine_tuning(board)
    assert (found.comparison.second, found.verdict) == ("untrained [backbone=small]", "no")


def test_one_seed_holds_for_these_runs_only(tmp_path: Path) -> None:
    board = made(tmp_path, {"small": {"untrained": 0.4, "head": 0.5, "last stage": 0.6}}, seeds=1)
    assert "Yes, in these runs (training was not repeated) (" in fine_tuning_lines(board)[0]


def test_a_study_without_both_kinds_of_rows_does_not_ask(tmp_path: Path) -> None:
    levels = {"small": {"untrained": 0.4, "head": 0.5, "last stage": 0.6}}
    assert fine_tuning_lines(made(tmp_path / "a", levels, methods=METHODS[:2])) == []
    assert fine_tuning_lines(made(tmp_path / "b", levels, methods=[METHODS[0], METHODS[2]])) == []


def test_what_a_network_costs_stands_beside_its_score_if_networks_differ(tmp_path: Path) -> None:
    one = {"untrained": 0.4, "head": 0.5, "last stage": 0.6}
    board = made(tmp_path / "two", {"small": one, "large": {**one, "last stage": 0.7}})
    assert "MFLOP/image" in as_markdown(board)
    console = Console(width=120, file=io.StringIO(), color_system=None)
    console.print(terminal(board, width=120))
    assert "MFLOP" in console.file.getvalue()
    assert "operations" in as_csv(board).splitlines()[0]
    front = next(line for line in front_lines(board) if "operations per image" in line)
    assert front.endswith(": last stage [backbone=small], last stage [backbone=large].")
    same = made(tmp_path / "one", {"small": one})
    assert "MFLOP" not in as_markdown(same)
    assert not any("operations" in line for line in front_lines(same))
