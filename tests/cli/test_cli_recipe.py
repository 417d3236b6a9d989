"""`levelfield compare --data` in stages: short trainings first, the best one longer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cli_room import Levelfield, make_photos

from levelfield.embedder import load
from levelfield.embedder.best import run_folder
from levelfield.files.reading import checksum
from levelfield.studies import read_study

TINY = ["conditions.backbone=conv4", "conditions.weights=random", "conditions.image=32", "--no-page", "--jobs", "2"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_photos(tmp_path_factory.mktemp("birds") / "birds", classes=20, each=6, side=40)


def test_stages_end_with_a_finalist_that_more_time_trains_again(
    levelfield: Levelfield, room: Path, photos: Path
) -> None:
    words = ["compare", "--data", photos, "methods=[proxy_anchor, contrastive]", *TINY]
    first = levelfield(*words, "--time", "5m")
    plan = " ".join(first.printed.split())
    assert "Within 5 min, on 2 cores: 1. untrained features at 32 pixels" in plan
    assert "2 objectives train the network for 100 steps: about" in plan
    assert "3 of 10 training classes judge 1 and 2." in plan
    assert "After 100 steps:" in first.err
    study = read_study(room / "runs/birds/study.yaml")
    assert set(study.recipe.scores) == {"proxy_anchor", "contrastive"}
    assert study.recipe.best in {method.label for method in study.methods}
    assert study.conditions.cut == "tuned"  # random weights
    assert "training the network pays" in plan.lower()
    dropped = ({"proxy_anchor", "contrastive"} - {method.label for method in study.methods}).pop()
    table = plan.partition("Short trainings before the comparison")[2]
    assert re.search(rf"{dropped} 0\.\d+ .{{0,9}}dropped", table)
    assert "map@r of 3 of 10 training classes; the test classes chose nothing." in table
    best = run_folder(room / "runs/birds")
    assert load(best).dim == 64  # the features below the head
    board = json.loads((room / "runs/birds/leaderboard.json").read_text())
    assert board["facts"]["recipe"]["best"] == study.recipe.best

    weights = checksum(best / "model.safetensors")
    again = levelfield(*words, "--time", "5m")
    assert "After" not in again.err  # everything is there
    assert checksum(best / "model.safetensors") == weights
    more = levelfield(*words, "--time", "6m")
    assert "After 100 steps:" in more.err
    trained = list((room / "runs/birds-recipe").glob("*/*/run.yaml"))
    assert len(trained) == 1 + 2  # untrained, 100 steps of both: nothing was trained again

    whole = levelfield("train", "runs/birds/study.yaml", "--method", "best", "--all-classes")
    assert whole.code == 0


def test_a_dry_run_prints_the_stages_and_writes_nothing(levelfield: Levelfield, room: Path, photos: Path) -> None:
    printed = " ".join(levelfield("compare", "--data", photos, *TINY, "--dry-run").printed.split())
    assert "Within 5 min, on 2 cores" in printed
    assert not (room / "runs").exists()


def test_without_classes_that_judge_nothing_is_trained(levelfield: Levelfield, room: Path) -> None:
    few = make_photos(room / "few", classes=8, each=4, side=40)
    printed = " ".join(levelfield("compare", "--data", few, *TINY).printed.split())
    assert "None of the 4 training classes can be held out" in printed
    assert "Use untrained features" in printed or "Use head at its start" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["small.yaml", "--time", "5m"], "--time is for photos"),
        (["--data", "photos", "--time", "5m", "--trials", "2"], "--time is for photos"),
        (["--data", "photos", "--time", "30 trials"], "a time is needed, e.g. 30m or 2h"),
        (["--data", "photos", "--time", "soon"], "'soon' is no"),
        (["--data", "photos", "--time", "5m", "methods=[lda]"], "No method of the study trains"),
        (["--data", "photos", "--time", "5m", "conditions.steps=9"], "conditions.steps fixes the length"),
    ],
)
def test_a_wrong_time_is_one_message(levelfield: Levelfield, room: Path, words: list[str], message: str) -> None:
    assert message in " ".join(levelfield("compare", *words).error.split())
