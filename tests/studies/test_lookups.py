"""A study resolves names once: a user's file runs once per process, and a run makes few calls of registries."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from small_world import carry_out, small_study

from levelfield import compare
from levelfield.registry import Registry
from levelfield.studies.execution.workers import run_all

LOOKUPS = {value.__code__ for value in vars(Registry).values() if hasattr(value, "__code__")}
LOSS = """
import os
from pathlib import Path

import torch

with open(Path(__file__).with_name("executions"), "a") as file:
    file.write(f"{os.getpid()}\\n")


class Pull(torch.nn.Module):
    def forward(self, embeddings, labels):
        return embeddings.square().mean()
"""


def test_a_loss_is_loaded_once_in_each_process_of_a_study_with_three_seeds(
    photos: Path, tmp_path: Path, quick_processes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levelfield.studies.execution.study.run_all", run_all)  # tests of commands stay in one process
    (tmp_path / "mine.py").write_text(LOSS)
    study = small_study(photos, [f"{tmp_path}/mine.py:Pull"]).model_copy(update={"seeds": (0, 1, 2)})
    compare(study, out=tmp_path / "runs", jobs=1, page=False)
    executions = Counter((tmp_path / "executions").read_text().split())
    assert set(executions.values()) == {1}
    assert len(executions) == 2, "the process that plans, and the worker"


def test_one_run_makes_fewer_than_100_calls_of_registries(photos: Path, tmp_path: Path) -> None:
    carry_out(small_study(photos, ["triplet"]), tmp_path / "first")  # imports
    calls = []

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in LOOKUPS:
            calls.append(frame.f_code.co_name)

    sys.setprofile(count)
    try:
        carry_out(small_study(photos, ["contrastive"]), tmp_path / "second")
    finally:
        sys.setprofile(None)
    assert 0 < len(calls) < 100
