"""A user's code file runs once per process, however often a study uses it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from small_world import small_study

from levelfield import compare

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


@pytest.mark.usefixtures("quick_processes")
def test_a_loss_is_loaded_once_in_each_process_of_a_study_with_three_seeds(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LOSS)
    study = small_study(photos, [f"{tmp_path}/mine.py:Pull"]).model_copy(update={"seeds": (0, 1, 2)})
    compare(study, out=tmp_path / "runs", jobs=1)
    executions = Counter((tmp_path / "executions").read_text().split())
    assert set(executions.values()) == {1}
    assert len(executions) == 2, "the process that plans, and the worker"
