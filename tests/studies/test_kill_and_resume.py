"""A run killed at any moment and restarted gives the same bits as an uninterrupted one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_world import Strike, Trial, make_photos, resolve, small_study, wait_for

from levelfield.studies import PlannedRun
from levelfield.training import checkpoint

STRIKES = 8
FILES: list[Strike] = [  # in the order in which a run writes them
    ("before", "run.yaml", 1),
    ("before", "key.json", 1),
    ("after", "cache/rows/*/*.safetensors", 3),
    ("before", "cache/rows/*/*.safetensors", 4),
    ("before", "checkpoint", 1),
    ("after", "checkpoint", 2),
    ("before", "log.jsonl", 1),
    ("before", "checkpoint", 3),
    ("after", "checkpoint", 2),
    ("before", "cache/rows/*/*.safetensors", 2),
    ("after", "run/model.safetensors", 1),
    ("before", "model.yaml", 1),
    ("before", "items.csv", 1),
    ("after", "embeddings.npy", 1),
    ("before", "method.safetensors", 1),
    ("before", "training_spectra.npz", 1),
    ("before", "training.json", 1),
    ("after", "training.json", 1),
    ("after", "per_query.npz", 1),
    ("before", "metrics.json", 1),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> PlannedRun:
    photos = make_photos(tmp_path_factory.mktemp("struck") / "photos", classes=6, each=3)
    # a batching with a memory has the most to lose: its rows, their ages and the plan made from older ones
    method = {"margin": {"beta": 0.9, "miner": "distance_weighted", "batching": {"ddm": {"pool": 8}}}}
    study = small_study(photos, [method], cut="last-1", steps=16, batch="3x2", dropout=0.2)
    (planned,) = resolve(study).runs
    return planned


@pytest.fixture(scope="module")
def whole(run: PlannedRun, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], float]:
    """The run that nobody interrupts, and how long it takes once everything is warm."""
    first, second = (Trial(run, tmp_path_factory.mktemp(f"whole{k}")) for k in range(2))
    assert first.start()
    began = time.perf_counter()
    assert second.start()
    seconds = time.perf_counter() - began
    assert first.result() == second.result()
    metrics: Any = first.result()["metrics"]
    assert metrics["summary"]["step"] == 16
    assert any(deviation["what"] == "lr_of_beta" for deviation in metrics["deviations"])
    return first.result(), seconds


def test_killed_at_random_moments_it_gives_the_same_bits(
    run: PlannedRun, whole: tuple[dict[str, object], float], tmp_path: Path
) -> None:
    expected, seconds = whole
    random = np.random.default_rng(7)
    strikes = finished = 0
    while strikes < STRIKES or not finished:
        trial = Trial(run, tmp_path / str(finished))
        while not trial.start(kill_after=random.uniform(0, seconds) if strikes < STRIKES else None):
            strikes += 1
        assert trial.result() == expected
        assert not list(trial.folder.glob(".*.tmp"))
        finished += 1
    assert strikes == STRIKES


def test_killed_at_every_kind_of_file_it_gives_the_same_bits(
    run: PlannedRun, whole: tuple[dict[str, object], float], tmp_path: Path
) -> None:
    trial = Trial(run, tmp_path)
    for strike in FILES:
        assert not trial.start(strike=strike), f"{strike} did not happen"
    assert trial.start()
    assert trial.result() == whole[0]
    assert not list(trial.folder.glob(".*.tmp"))


SHARDED = {"sharded": {"sample": 0.5}}  # what is drawn must be drawn again, too
# Stops the training before its third epoch as long as there is a file `hold`, and notes which epochs are planned.
OWN = """
import pathlib, time
from levelfield.batching import SamplesPerClass

class Held(SamplesPerClass):
    def plan(self, epoch, memory=None):
        here = pathlib.Path(__file__).parent
        (here / f"epoch {epoch}").touch()
        if epoch == 2 and (here / "hold").exists():
            time.sleep(600)
        return super().plan(epoch, memory)
"""


def two_trials(photos: Path, folder: Path, settings: dict[str, Any], **conditions: Any) -> tuple[Trial, Trial]:
    """The same run twice. A batch has 2 of 4 classes, an epoch 3 batches; a checkpoint is saved every second step."""
    (run,) = resolve(small_study(photos, [{"cosface": settings}], batch="2x3", **conditions)).runs
    return Trial(run, folder / "whole"), Trial(run, folder / "killed")


def test_a_killed_run_of_one_process_gives_the_same_bits(photos: Path, tmp_path: Path) -> None:
    whole, killed = two_trials(photos, tmp_path, SHARDED, steps=6)
    assert whole.start()
    assert not killed.start(strike=("before", "checkpoint", 2))
    assert checkpoint.load(killed.folder / "checkpoint")["progress"]["step"] == 2
    assert killed.start()
    assert killed.result() == whole.result()


def test_a_killed_run_of_two_processes_gives_the_same_bits(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    settings = {**SHARDED, "batching": f"{tmp_path / 'own.py'}:Held"}
    whole, killed = two_trials(photos, tmp_path, settings, steps=8, processes=2)
    (tmp_path / "hold").touch()
    driver = killed.begin()
    try:
        wait_for((tmp_path / "epoch 2").exists, 60)
    finally:
        driver.kill()
    saved = checkpoint.load(killed.folder / "checkpoint")
    assert saved["progress"]["step"] in (4, 6)
    assert saved["weights"]["method"]["objective._objective.proxies"].shape == (4, 8)
    for path in [tmp_path / "hold", *tmp_path.glob("epoch *")]:
        path.unlink()
    assert killed.start()
    assert not (tmp_path / "epoch 0").exists()
    assert whole.start()
    assert killed.result() == whole.result()


def test_a_killed_run_of_drml_gives_the_same_bits(photos: Path, tmp_path: Path) -> None:
    method = {"drml": {"objective": "margin", "settings": {"miner": "distance_weighted"}}}
    (run,) = resolve(small_study(photos, [method], cut="last-1", steps=8, dropout=0.2)).runs
    whole, killed = Trial(run, tmp_path / "whole"), Trial(run, tmp_path / "killed")
    assert whole.start()
    for strike in (("after", "checkpoint", 1), ("before", "checkpoint", 2)):
        assert not killed.start(strike=strike)
    assert killed.start()
    assert killed.result() == whole.result()
