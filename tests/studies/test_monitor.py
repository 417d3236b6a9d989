"""`monitor: test` records scores and affects neither weights nor selection nor training time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_world import resolve, run_one, small_study, told

from levelfield.progress import CallbackProgress
from levelfield.studies.runs.evaluation import sample
from levelfield.studies.runs.run import execute
from levelfield.studies.runs.training import Options, Task
from levelfield.training import Pace

DEEP: dict[str, Any] = {"cut": "last-1", "steps": 10, "validate_every": 4, "dropout": 0.2, "batch_norm": "train"}
SELECTED = {**DEEP, "select": "map@r", "patience": 1, "batch": "2x3"}
METHOD = {"margin": {"miner": "distance_weighted"}}


@pytest.mark.parametrize("conditions", [DEEP, SELECTED], ids=["budget", "selected"])
def test_it_changes_no_bit_and_chooses_nothing(photos: Path, tmp_path: Path, conditions: dict[str, Any]) -> None:
    share = ("protocol.validation=0.5",) if "select" in conditions else ()
    plain, watched = (
        run_one(small_study(photos, [METHOD], overrides=share, **conditions, monitor=monitor), tmp_path / monitor)
        for monitor in ("none", "test")
    )
    for name in ("model.safetensors", "embeddings.npy", "log.jsonl"):
        assert (plain / name).read_bytes() == (watched / name).read_bytes(), name
    one, two = (told(folder)["summary"] for folder in (plain, watched))
    assert one["monitored"] == []
    for key in one.keys() - {"monitored", "seconds", "waiting", "planning", "peak_bytes"}:
        assert one[key] == two[key], key


def test_the_figures_are_those_of_both_halves_and_the_ledger_says_that_somebody_looked(
    photos: Path, tmp_path: Path
) -> None:
    folder = run_one(small_study(photos, [METHOD], monitor="test", **DEEP), tmp_path)
    content = told(folder)
    monitored = content["summary"]["monitored"]
    assert [entry["step"] for entry in monitored] == [0, 4, 8, 10]
    assert {entry["metric"] for entry in monitored} == {"recall@1"}
    assert all(0 <= entry[part] <= 1 for entry in monitored for part in ("train", "test"))
    assert monitored[-1]["test"] == json.loads((folder / "metrics.json").read_text())["values"]["recall@1"]
    assert [entry["text"] for entry in content["deviations"]][-1] == "monitor test"
    assert content["measured"]["monitored"] == 4
    assert content["measured"]["rows_through_trunk"] == content["measured"]["images"]


def test_the_first_metric_that_ranks_is_monitored_in_what_trains(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, ["contrastive"], monitor="test", overrides=("metrics=[rho, map@r, recall@1]",))
    assert told(run_one(study, tmp_path))["summary"]["monitored"][0]["metric"] == "map@r"
    content = told(run_one(small_study(photos, ["start"], monitor="test"), tmp_path))
    assert content["summary"]["monitored"] == []
    assert "monitor" not in {entry["what"] for entry in content["deviations"]}


def test_a_run_that_was_interrupted_writes_the_same_figures(photos: Path, tmp_path: Path) -> None:
    (run,) = resolve(small_study(photos, [METHOD], monitor="test", **DEEP)).runs
    options = Options(pace=Pace(save_every_steps=3))

    def interrupt(text: str, done: int, total: int) -> None:
        if text == "training" and done == 8:  # just after a look, two steps after a checkpoint
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(Task(run.spec, tmp_path / "again", ("recall@1",), options), CallbackProgress(interrupt))
    for name in ("whole", "again"):
        execute(Task(run.spec, tmp_path / name, ("recall@1",), options))
    whole, again = (tmp_path / "whole", tmp_path / "again")
    assert told(whole)["summary"]["monitored"] == told(again)["summary"]["monitored"]
    assert (whole / "model.safetensors").read_bytes() == (again / "model.safetensors").read_bytes()


def test_a_sample_has_all_of_few_images_and_whole_classes_of_many_always_the_same() -> None:
    assert sample(np.arange(30) % 7, most=30).tolist() == list(range(30))
    labels = np.repeat(np.arange(100), 7)
    chosen = sample(labels, most=50)
    assert len(chosen) == 49
    classes, counts = np.unique(labels[chosen], return_counts=True)
    assert set(counts) == {7}
    assert classes.tolist() != list(range(7))
    assert np.array_equal(chosen, sample(labels, most=50))
    large = np.repeat(np.arange(4), 400)  # is cut so that there are several
    assert np.unique(large[sample(large, most=300, of_a_class=100)], return_counts=True)[1].tolist() == [100, 100, 100]
