"""Peak memory: allocations of the run count; earlier allocations and earlier parts are handled correctly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from training_world import Told, make

from levelfield.training import Pace, peak
from levelfield.training.peak import Peak

MEGABYTE = 2**20


def hold(megabytes: int) -> None:
    np.ones(megabytes * MEGABYTE, dtype=np.uint8)


def test_what_was_held_counts_until_it_begins_again() -> None:
    counted = Peak()
    before = counted.bytes or 0
    hold(300)
    high = counted.bytes or 0
    assert high - before > 200 * MEGABYTE
    assert (counted.larger(2**60), counted.larger(None)) == (2**60, None)
    counted.begin()
    low = counted.bytes or 0
    assert high - low > 200 * MEGABYTE


def test_what_no_system_counts_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak, "RESET", tmp_path / "no" / "such" / "file")
    assert Peak().bytes is None
    assert Peak().larger(5) is None


def test_on_a_gpu_its_own_memory_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    allocated = {"peak": 7}
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: allocated.update(peak=3))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: allocated["peak"])
    counted = Peak(torch.device("cuda:0"))
    assert counted.bytes == 3
    allocated["peak"] = 9
    assert counted.larger(4) == 9
    assert Peak(torch.device("mps")).bytes is None  # which keeps no peak


def pull(rows: Tensor, batch: object) -> Tensor:
    return rows.square().mean()


def greedy(rows: Tensor, batch: object) -> Tensor:
    hold(200)
    return rows.square().mean()


def peak_of(folder: Path, step: Callable[[Tensor, object], Tensor], **how: Any) -> int:
    return int(make(Told(step), steps=4, validate_every=2).train(folder, **how).peak_bytes)


def test_a_run_says_what_its_steps_held_and_not_what_somebody_who_watches_held(tmp_path: Path) -> None:
    def watch() -> dict[str, float]:
        hold(400)
        return {"test": 0.5}

    plain = peak_of(tmp_path / "plain", pull)
    assert peak_of(tmp_path / "greedy", greedy) - plain > 150 * MEGABYTE
    assert peak_of(tmp_path / "watched", pull, watch=watch) - plain < 100 * MEGABYTE


def test_a_run_that_goes_on_keeps_the_larger_peak(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    often = Pace(save_every_steps=1)
    with pytest.raises(KeyboardInterrupt):
        peak_of(tmp_path / "again", greedy, pace=often, after_step=stop)
    plain = peak_of(tmp_path / "plain", pull)
    assert peak_of(tmp_path / "again", pull, pace=often) - plain > 150 * MEGABYTE
