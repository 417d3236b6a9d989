"""Costs of rows and which are worth it, in the files; unknown costs are marked."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from made_runs import class_means, planned, write_run

from levelfield.reports.leaderboard.cells import front_lines
from levelfield.reports.leaderboard.tables import as_csv, as_markdown, explanation
from levelfield.studies.leaderboard.board import Leaderboard, gather

LEVELS = {"lda": 0.50, "margin": 0.60, "triplet": 0.58, "contrastive": 0.45}
SECONDS = {"margin": 9.0, "triplet": 4.0, "contrastive": 2.0}
PEAKS = {"margin": 500_000_000, "triplet": 700_000_000, "contrastive": 400_000_000}


def made(folder: Path, *, labels: tuple[str, ...] = tuple(LEVELS), seeds: int = 1, **summary: Any) -> Leaderboard:
    runs = planned(list(labels), seeds=seeds)
    for run in runs:
        trains = run.label in SECONDS
        cost = {"peak_bytes": PEAKS.get(run.label, 0), "images": 1200, "rows_through_trunk": 2400}
        write_run(
            run,
            folder,
            class_means(LEVELS[run.label]),
            steps=10 if trains else 0,
            seconds=SECONDS.get(run.label, 0.0),
            **({**cost, **summary} if trains else {}),
        )
    return gather("made", runs, folder, ("recall@1", "nmi"))


def test_the_front_is_what_nothing_beats_for_as_much_or_less(tmp_path: Path) -> None:
    board = made(tmp_path)
    said = [
        "Pareto front of recall@1 against seconds: lda, triplet, margin.",  # contrastive is below lda
        "Pareto front of recall@1 against peak memory: lda, margin.",
        "Pareto front of recall@1 against rows through the trunk: lda, margin.",
    ]
    assert front_lines(board) == said
    assert all(line in as_markdown(board) for line in said)
    fronts = board.as_data()["fronts"]
    assert fronts["emoji"]["seconds"] == ["lda", "triplet", "margin"]


def test_a_front_of_two_is_not_worth_a_line(tmp_path: Path) -> None:
    assert front_lines(made(tmp_path, labels=("lda", "margin", "triplet"))) == []


def test_costs_stand_in_the_files(tmp_path: Path) -> None:
    board = made(tmp_path, seeds=2)
    lines = {line["method"]: line for line in csv.DictReader(io.StringIO(as_csv(board)))}
    assert [lines["margin"][key] for key in ("seconds", "peak_bytes", "images", "rows_through_trunk")] == [
        "9.00",
        "500000000",
        "1200",
        "2400",
    ]
    table = [line for line in as_markdown(board).splitlines() if line.startswith("|")]
    head, _, first = table[:3]
    shown = dict(zip(head.split(" | "), first.split(" | "), strict=True))
    assert [shown[key] for key in ("train s", "peak MB", "images", "rows through trunk")] == [
        "9.0",
        "500",
        "1,200",
        "2,400",
    ]


def test_a_cost_that_one_run_did_not_count_is_not_known(tmp_path: Path) -> None:
    board = made(tmp_path, peak_bytes=None)
    assert {row.peak_bytes for row in board.rows} == {None}
    assert "| not known | 1,200 |" in as_markdown(board)
    assert next(csv.DictReader(io.StringIO(as_csv(board))))["peak_bytes"] == ""
    assert not any("peak" in line for line in front_lines(board))


def test_the_best_on_test_stands_beside_the_honest_figure(tmp_path: Path) -> None:
    seen = [
        {"step": step, "metric": "recall@1", "train": 0.9, "test": test}
        for step, test in ((0, 0.3), (5, 0.64), (8, 0.64), (10, 0.6))
    ]
    board = made(tmp_path, labels=("lda", "margin"), seeds=2, monitored=seen)
    said = (
        "margin: best test score during training: 0.640 at step 5 (not used for selection); reported: 0.600, gap 0.040."
    )
    assert [line for line in explanation(board) if "best test score" in line] == [said]
    assert said in as_markdown(board)
    first, last = csv.DictReader(io.StringIO(as_csv(board)))
    assert (first["best_on_test"], first["best_on_test_gap"]) == ("0.640000", "0.040000")
    assert (last["method"], last["best_on_test"], last["best_on_test_gap"]) == ("lda", "", "")
    found = board.as_data()["rows"][0]["best_on_test"]
    assert (found["steps"], round(found["gap"], 6)) == ([5, 5], 0.04)
    assert board.rows[0].cells["recall@1"].mean < found["best"], "the row is ranked by the honest figure"
