"""`levelfield threshold`: chosen on other classes than the test classes, which test it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from cli_room import Levelfield

from levelfield.evaluation import same_or_not

ARRAYS = ["--embeddings", "e.npy", "--labels", "y.npy"]
VALIDATION = ["--validation", "v.npy", "--validation-labels", "vy.npy"]


@pytest.fixture
def held_out(levelfield: Levelfield, room: Path) -> Path:
    """A run with validation classes."""
    words = ["seeds=1", "methods=[contrastive]", "protocol.validation=0.5", "conditions.batch=2x2"]
    assert levelfield("-q", "compare", "small.yaml", *words).code == 0
    return next(Path("runs/small/contrastive").glob("seed0-*"))


def test_a_threshold_is_chosen_on_validation_arrays(levelfield: Levelfield, arrays: Path) -> None:
    words = [*ARRAYS, *VALIDATION]
    content = json.loads(levelfield("threshold", *words, "--false-match", "0.02", "--json").printed)
    chosen = same_or_not(np.load("v.npy"), np.load("vy.npy"), rule={"false_match": 0.02})
    rates = chosen.rates(np.load("e.npy"), np.load("y.npy"))
    assert content["value"] == chosen.value
    assert tuple(content["interval"]) == chosen.interval
    assert content["rates"]["test"]["false_match"]["value"] == rates.false_match.value
    assert content["rates"]["test"]["false_non_match"]["high"] == rates.false_non_match.high
    printed = levelfield("threshold", *words).printed
    equal = same_or_not(np.load("v.npy"), np.load("vy.npy"))
    assert f"Two images are of the same class if their cosine is {equal.value:.4f} or more (95 %: " in printed
    assert "equal rates of both errors on 10 validation classes (50 images)" in printed
    assert "DEVIATION" not in printed
    bits = levelfield("threshold", *words, "--rule", "balanced", "--distance", "hamming", "--ci", "0").printed
    assert re.search(r"the same class if at most \d+ bits differ\.", bits)


def test_a_run_chooses_on_its_validation_classes(levelfield: Levelfield, held_out: Path) -> None:
    content = json.loads(levelfield("threshold", held_out, "--json").printed)
    assert content["chosen_on"] == "validation"
    assert (content["rates"]["validation"]["classes"], content["rates"]["validation"]["images"]) == (2, 8)
    assert (content["rates"]["test"]["classes"], content["rates"]["test"]["images"]) == (4, 16)
    # the validation images embedded by `levelfield embed` choose the same
    rows = []
    for label in ("02", "03"):
        levelfield("-q", "embed", held_out, f"photos/class {label}", "--raw", "--out", "e.npy", "--force")
        rows.append(np.load("e.npy"))
    assert same_or_not(np.concatenate(rows), np.repeat([2, 3], 4), ci=None).value == content["value"]


def test_training_classes_choose_only_when_asked_and_it_is_said(levelfield: Levelfield, trained: Path) -> None:
    text = levelfield("threshold", trained).error
    assert "has no validation classes" in text
    assert "protocol.validation=0.2" in text
    assert "--choose-on training" in text
    text = levelfield("threshold", trained, "--choose-on", "training").printed
    assert "DEVIATION: the network was trained on the classes that chose this threshold" in text
    assert "on 4 training classes (16 images)" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["RUN", "--validation", "e.npy"], "need --embeddings"),
        (["RUN", "--choose-on", "test"], "must be validation or training"),
        (ARRAYS, "needs --validation and --validation-labels"),
        ([*ARRAYS, "--validation", "e.npy", "--validation-labels", "y.npy"], "used to choose the threshold"),
        ([*ARRAYS, *VALIDATION, "--false-match", "2"], "between 0 and 1"),
        ([*ARRAYS, *VALIDATION, "--distance", "cosin"], "Did you mean 'cosine'"),
        ([*ARRAYS, *VALIDATION, "--dim", "64"], "dim=64"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_a_wrong_request_is_refused(
    levelfield: Levelfield, arrays: Path, trained: Path, words: list[str], message: str
) -> None:
    for name in ("e.npy", "y.npy", "v.npy", "vy.npy"):
        np.save(name, np.load(arrays / name))
    ended = levelfield("threshold", *[trained if word == "RUN" else word for word in words])
    assert message in " ".join(ended.error.split())
    assert not ended.out
