"""A run killed at any moment and restarted gives the same bits as an uninterrupted one."""

from __future__ import annotations

import json
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
from small_world import Strike, make_photos, one_run, processes, resolve, small_study

from levelfield.studies import PlannedRun

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
METRICS = ("recall@1", "map@r")


class Trial:
    """A run with a cache of its own, in processes that can be killed."""

    def __init__(self, run: PlannedRun, home: Path) -> None:
        self.run, self.home = run, home
        self.folder = home / "run"

    def begin(self, strike: Strike | None = None) -> BaseProcess:
        """Start it, and do not wait."""
        process = processes().Process(
            target=one_run, args=(self.run, self.folder, self.home / "cache", METRICS, strike)
        )
        process.start()
        return process

    def start(self, *, strike: Strike | None = None, kill_after: float | None = None) -> bool:
        """Whether it came to its end."""
        process = self.begin(strike)
        process.join(kill_after)
        if process.exitcode is None:
            process.kill()
            process.join()
        assert process.exitcode in (0, -9), (self.folder / "error.txt").read_text()
        return process.exitcode == 0

    def result(self) -> dict[str, object]:
        """All that must be equal: everything but the time and the memory it took."""
        metrics = json.loads((self.folder / "metrics.json").read_text())
        del metrics["checksum"]  # of the seconds, too
        del metrics["checksums"]["run.yaml"]  # says where the images are, seen from the folder
        for clock in ("seconds", "waiting", "planning", "peak_bytes"):
            del metrics["summary"][clock]
        return {
            "model": (self.folder / "model.safetensors").read_bytes(),
            "method": (self.folder / "method.safetensors").read_bytes(),
            "embeddings": (self.folder / "embeddings.npy").read_bytes(),
            "log": (self.folder / "log.jsonl").read_text(),
            "metrics": metrics,
        }


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
    return first.result(), seconds


def test_the_run_that_is_struck_really_learns(whole: tuple[dict[str, object], float]) -> None:
    metrics = whole[0]["metrics"]
    assert isinstance(metrics, dict)
    assert metrics["summary"]["step"] == 16
    assert any(deviation["what"] == "lr_of_beta" for deviation in metrics["deviations"])


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


def test_a_run_that_has_ended_does_nothing_when_started_again(run: PlannedRun, tmp_path: Path) -> None:
    trial = Trial(run, tmp_path)
    assert trial.start()
    times = {path: path.stat().st_mtime_ns for path in trial.folder.iterdir() if path.name != "lock"}
    assert trial.start()
    assert times == {path: path.stat().st_mtime_ns for path in trial.folder.iterdir() if path.name != "lock"}
