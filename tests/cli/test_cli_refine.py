"""`levelfield evaluate RUN --refine`: message passing among the test images of a finished run, next to its plain
scores."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_room import Levelfield

from levelfield import evaluate
from levelfield.methods.refine.passing import refine
from levelfield.studies.runs.folder.method_file import load_method

METRICS = ("--metrics", "recall@1,map@r")


@pytest.fixture(scope="module")
def passing_once(room_after: Callable[..., Path]) -> Path:
    room = room_after("compare", "small.yaml", "seeds=1", "methods=[message_passing]")
    return next((room / "runs/small/message_passing").glob("seed0-*"))


@pytest.fixture
def passing(passing_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of message passing, which is only read."""
    monkeypatch.chdir(tmp_path)
    return passing_once


def test_each_way_is_a_row_beside_the_plain_one(levelfield: Levelfield, passing: Path) -> None:
    ways = "reciprocal:k=5:size=4,kmeans:clusters=4:size=2:chunks=2"
    content = json.loads(levelfield("evaluate", passing, *METRICS, "--refine", ways, "--json").printed)
    stored = json.loads((passing / "metrics.json").read_text())["values"]
    plain, first, second = ({n: m["value"] for n, m in entry["metrics"].items()} for entry in content)
    assert plain == stored
    rows, objective = np.load(passing / "embeddings.npy"), load_method(passing).objective
    with (passing / "items.csv").open() as file:
        labels = [item["class"] for item in csv.DictReader(file)]
    clusters = {"by": "kmeans", "clusters": 4, "size": 2, "chunks": 2}
    for result, settings in ((first, {"k": 5, "size": 4}), (second, clusters)):
        expected = evaluate(refine(objective, rows, **settings), np.array(labels), metrics=("recall@1", "map@r"))
        assert result == {name: expected[name] for name in expected}
    names = ["none", "reciprocal k=5 size=4", "kmeans clusters=4 size=2 chunks=2"]
    assert [entry["refined"] for entry in content] == names
    assert "refined" not in content[0]["metrics"]["recall@1"]["signature"]
    assert content[1]["metrics"]["recall@1"]["signature"].endswith("|refined:reciprocal k=5 size=4")


def test_the_screen_marks_what_was_refined(levelfield: Levelfield, passing: Path) -> None:
    printed = levelfield("evaluate", passing, "--metrics", "recall@1", "--refine", "nearest:size=3").printed
    assert "DEVIATION, refined: nearest size=3." in printed
    assert [line.split()[0] for line in printed.splitlines() if "cosine" in line] == ["no", "nearest"]
    every = levelfield("evaluate", passing, "--refine", "nearest:size=3", "--per-query", "q.csv").printed
    assert "refined:" in every  # many metrics stand in columns
    with Path("q.csv").open() as file:
        assert {line["refined"] for line in csv.DictReader(file)} == {"none", "nearest size=3"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--refine", "reciprocal", "--dim", "4"], "cannot be combined"),
        (["--refine", ","], "--refine is empty"),
        (["--refine", "reciprocal:size=4000"], "group size is 4000"),
    ],
)
def test_what_makes_no_sense_is_refused(levelfield: Levelfield, passing: Path, words: list[str], message: str) -> None:
    assert message in " ".join(levelfield("evaluate", passing, *words).error.split())


def test_a_run_that_cannot_refine_says_so(levelfield: Levelfield, trained: Path) -> None:
    message = " ".join(levelfield("evaluate", trained, "--refine", "reciprocal").error.split())
    assert "('contrastive') cannot be refined. 'refine' needs the objective 'message_passing'" in message
    np.save("y.npy", np.zeros(len(np.load(trained / "embeddings.npy")), int))
    arrays = levelfield("evaluate", "--embeddings", trained / "embeddings.npy", "--labels", "y.npy", "--refine", "ward")
    assert "--refine needs a run folder" in arrays.error


def test_a_study_may_refine_and_its_run_says_so(levelfield: Levelfield, room: Path) -> None:
    method = "methods=[{label: refined, message_passing: {refine: {by: reciprocal, k: 4, size: 3}}}]"
    words = ["seeds=1", "protocol.validation=0.5", "conditions.select=recall@1", "conditions.batch=2x2"]
    assert levelfield("-q", "compare", "small.yaml", method, *words).code == 0
    run = next(Path("runs/small/refined").glob("seed0-*"))
    content = json.loads((run / "metrics.json").read_text())
    assert "refined reciprocal k=4 size=3 (no)" in [entry["text"] for entry in content["deviations"]]
    assert content["signatures"]["recall@1"]["representation"]["refined"] == "reciprocal k=4 size=3"
    assert "refined: reciprocal k=4 size=3" in levelfield("evaluate", run).printed
    assert "are already refined" in levelfield("evaluate", run, "--refine", "nearest").error
