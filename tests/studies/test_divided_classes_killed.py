"""Runs with classes divided among processes: killed and started again, they give the bits of an undisturbed run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_world import resolve, small_study, wait_for
from test_kill_and_resume import Trial

from levelfield.training import checkpoint

SHARDED: list[Any] = [True, {"sample": 0.5}]
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


@pytest.mark.parametrize("sharded", SHARDED)
def test_a_killed_run_of_one_process_gives_the_same_bits(photos: Path, tmp_path: Path, sharded: Any) -> None:
    whole, killed = two_trials(photos, tmp_path, {"sharded": sharded}, steps=6)
    assert whole.start()
    assert not killed.start(strike=("before", "checkpoint", 2))
    assert checkpoint.load(killed.folder / "checkpoint")["progress"]["step"] == 2
    assert killed.start()
    assert killed.result() == whole.result()


@pytest.mark.parametrize("sharded", SHARDED)
def test_a_killed_run_of_two_processes_gives_the_same_bits(photos: Path, tmp_path: Path, sharded: Any) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    settings = {"sharded": sharded, "batching": f"{tmp_path / 'own.py'}:Held"}
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
