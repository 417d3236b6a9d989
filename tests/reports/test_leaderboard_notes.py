"""Notes of the leaderboard: costs and fronts, machines that differ in the last bits, the search, leaks."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
import torch
from made_runs import LEVELS, METRICS, SECONDS, class_means, planned, write_run

from levelfield.data.checks.leaks import Leaks, Pair
from levelfield.reports.leaderboard.cells import front_lines
from levelfield.reports.leaderboard.tables import as_csv, as_markdown, explanation
from levelfield.reports.split_leaks import Crossing, crossings, leak_lines, with_leaks
from levelfield.studies.leaderboard.board import Leaderboard, gather
from levelfield.studies.runs.machine import bits, machine
from levelfield.studies.runs.run import machine_of

PEAKS = {"margin": 500_000_000, "triplet": 700_000_000, "contrastive": 400_000_000}


def costly(folder: Path, *, labels: tuple[str, ...] = tuple(LEVELS), seeds: int = 1, **summary: Any) -> Leaderboard:
    runs = planned(list(labels), seeds=seeds)
    for run in runs:
        cost = {"peak_bytes": PEAKS.get(run.label, 0), "images": 1200, "rows_through_trunk": 2400, **summary}
        trains, seconds = run.label in SECONDS, SECONDS.get(run.label, 0.0)
        settings: dict[str, Any] = {"steps": 10, **cost} if trains else {"steps": 0}
        write_run(run, folder, class_means(LEVELS[run.label]), seconds=seconds, **settings)
    return gather("made", runs, folder, ("recall@1", "nmi"))


def test_costs_and_the_front_that_nothing_beats_are_in_the_files(tmp_path: Path) -> None:
    board = costly(tmp_path, seeds=2)
    fronts = [
        "Pareto front of recall@1 against seconds: lda, triplet, margin.",  # contrastive is below lda
        "Pareto front of recall@1 against peak memory: lda, margin.",
        "Pareto front of recall@1 against rows through the trunk: lda, margin.",
    ]
    assert front_lines(board) == fronts
    assert all(line in as_markdown(board) for line in fronts)
    assert board.as_data()["fronts"]["emoji"]["seconds"] == ["lda", "triplet", "margin"]
    margin = next(line for line in csv.DictReader(io.StringIO(as_csv(board))) if line["method"] == "margin")
    costs = {"seconds": "9.00", "peak_bytes": "500000000", "images": "1200", "rows_through_trunk": "2400"}
    assert margin.items() >= costs.items()
    head, _, first = [line.split(" | ") for line in as_markdown(board).splitlines() if line.startswith("|")][:3]
    shown = dict(zip(head, first, strict=True))
    texts = {"train s": "9.0", "peak MB": "500", "images": "1,200", "rows through trunk": "2,400"}
    assert shown.items() >= texts.items()
    two = costly(tmp_path / "two", labels=("lda", "margin", "triplet"))
    assert front_lines(two) == [], "a front of two is not worth a line"


def test_a_cost_that_one_run_did_not_count_is_not_known(tmp_path: Path) -> None:
    board = costly(tmp_path, peak_bytes=None)
    assert {row.peak_bytes for row in board.rows} == {None}
    assert "| not known | 1,200 |" in as_markdown(board)
    assert next(csv.DictReader(io.StringIO(as_csv(board))))["peak_bytes"] == ""
    assert not any("peak" in line for line in front_lines(board))


def test_the_best_on_test_is_beside_the_honest_figure(tmp_path: Path) -> None:
    scores = ((0, 0.3), (5, 0.64), (8, 0.64), (10, 0.6))
    seen = [{"step": step, "metric": "recall@1", "train": 0.9, "test": test} for step, test in scores]
    board = costly(tmp_path, labels=("lda", "margin"), seeds=2, monitored=seen)
    text = (
        "margin: best test score during training: 0.640 at step 5 (not used for selection); reported: 0.600, gap 0.040."
    )
    assert [line for line in explanation(board) if "best test score" in line] == [text]
    assert text in as_markdown(board)
    first, last = csv.DictReader(io.StringIO(as_csv(board)))
    assert (first["best_on_test"], first["best_on_test_gap"]) == ("0.640000", "0.040000")
    assert (last["method"], last["best_on_test"], last["best_on_test_gap"]) == ("lda", "", "")
    found = board.as_data()["rows"][0]["best_on_test"]
    assert (found["steps"], round(found["gap"], 6)) == ([5, 5], 0.04)
    assert board.rows[0].cells["recall@1"].mean < found["best"], "the row is ranked by the honest figure"


FIRST = ["PyTorch's kernels for AVX512", "avx512f", "GenuineIntel", "torch 2.6.0"]


def board_of_machines(folder: Path, second: list[str]) -> Leaderboard:
    runs = planned(["margin", "triplet"], seeds=1)
    for run, computed_by in zip(runs, (FIRST, second), strict=True):
        write_run(run, folder, class_means(0.5), computed_by=computed_by)
    return gather("made", runs, folder, METRICS)


@pytest.mark.parametrize(
    ("second", "difference"),
    [
        (["PyTorch's kernels for AVX2", *FIRST[1:]], "PyTorch's kernels for AVX2 and PyTorch's kernels for AVX512"),
        ([*FIRST[:3], "torch 2.7.0"], "torch 2.6.0 and torch 2.7.0"),
        (FIRST, ""),
        ([], ""),  # a run that trains nothing
    ],
)
def test_other_machines_or_libraries_are_named(tmp_path: Path, second: list[str], difference: str) -> None:
    board = board_of_machines(tmp_path, second)
    assert board.facts.get("machines", []) == ([difference] if difference else [])
    note = f"Not all runs were computed alike ({difference}), so they can differ in the last bits."
    assert [line for line in explanation(board) if "last bits" in line] == ([note] if difference else [])


def test_a_gpu_without_deterministic_kernels_is_said_in_run_yaml_and_leaderboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "Pretended GPU")
    spec = planned(["margin"], seeds=1)[0].spec
    steady = spec.model_copy(update={"conditions": spec.conditions.model_copy(update={"deterministic": True})})
    described = machine_of(spec, "cuda")["machine"]
    assert (described["gpu"], described["bits"]) == ("Pretended GPU", "can differ")
    assert {"cuda", "cudnn"} <= described.keys()
    assert "bits" not in machine_of(steady, "cuda")["machine"]
    assert machine_of(spec, "cpu")["machine"] == machine()

    by = list(bits(machine_of(spec, "cuda")))
    assert "gpu Pretended GPU" in by
    note = "On a GPU, without `deterministic: true`: the same study again can differ in the last bits."
    assert note in explanation(board_of_machines(tmp_path / "any", by))
    assert note not in explanation(board_of_machines(tmp_path / "same", list(bits(machine_of(steady, "cuda")))))


def board_with(folder: Path, definition: dict[str, Any]) -> Leaderboard:
    [run] = planned(["lda"], seeds=1)
    write_run(run, folder, class_means(0.5), definition=definition)
    return gather("made", [run], folder, ("recall@1",))


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({}, "200 queries against 200 images, the query itself left out; cosine distance; ties: expected"),
        (
            {"self_excluded": "none", "queries": 14_218, "gallery": 12_612, "lone": "miss"},
            "14,218 queries (missed where the gallery has no image of their class) against 12,612 images, none of "
            "which is a query; cosine distance",
        ),
        ({"self_excluded": "none", "clusterer": "lloyd100x3-seed0"}, "200 images, clustered by cosine distance."),
    ],
)
def test_a_query_is_said_to_be_left_out_where_it_was(tmp_path: Path, definition: dict[str, Any], text: str) -> None:
    lines = "\n".join(explanation(board_with(tmp_path, definition)))
    assert text in lines
    assert ("left out" in lines) == (not definition)


def test_no_leaks_are_searched_in_the_embedded_data(tmp_path: Path) -> None:
    board = board_with(tmp_path, {})
    assert crossings(board, planned(["lda"], seeds=1), tmp_path) == []
    assert "leaks" not in with_leaks(board, [], tmp_path).facts
    assert "split" not in as_markdown(board)


PAIR = Pair(Path("a/1.png"), Path("b/2.png"), "a", "b", 3)


@pytest.mark.parametrize(
    ("leaks", "text"),
    [
        (Leaks((), (), None, False, 5, 5), "No class and no file is on both sides of the split."),
        (Leaks(("a",), (), None, False, 5, 5), "LEAK: 1 class (a) is on both sides of the split."),
        (
            Leaks((), (PAIR,), None, False, 5, 81),
            "LEAK: 1 of 81 test images (byte for byte) is on both sides of the split.",
        ),
        (
            Leaks(tuple("abcdefg"), (PAIR,), (), False, 5, 5),
            "LEAK: 7 classes (a, b, c, d, e and 2 more) and 1 of 5 test images (byte for byte) are on both sides of "
            "the split. No test image looks like a training image.",
        ),
        (
            Leaks(("a", "b"), (), (PAIR, PAIR), True, 5, 5),
            "The same 2 classes train and test by design (protocol 'closed'). No file is on both sides of the split. "
            "2 test images look like a training image.",
        ),
    ],
)
def test_leaks_in_one_line(tmp_path: Path, leaks: Leaks, text: str) -> None:
    board = with_leaks(board_with(tmp_path, {}), [Crossing("emoji", {}, leaks)], tmp_path)
    assert leak_lines(board) == [text]
    assert text in as_markdown(board)
    assert Leaks.from_data(leaks.as_data()) == leaks
