"""A leaderboard says when its runs come from machines or libraries that can differ in the last bits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from made_runs import METRICS, class_means, planned, write_run

from levelfield.reports.leaderboard.tables import explanation
from levelfield.studies.leaderboard.board import Leaderboard, gather
from levelfield.studies.runs.machine import bits, machine
from levelfield.studies.runs.run import machine_of, versions

FIRST = ["PyTorch's kernels for AVX512", "avx512f", "GenuineIntel", "torch 2.6.0"]


def board(folder: Path, second: list[str]) -> Leaderboard:
    runs = planned(["margin", "triplet"], seeds=1)
    for run, computed_by in zip(runs, (FIRST, second), strict=True):
        write_run(run, folder, class_means(0.5), computed_by=computed_by)
    return gather("made", runs, folder, METRICS)


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (["PyTorch's kernels for AVX2", *FIRST[1:]], "PyTorch's kernels for AVX2 and PyTorch's kernels for AVX512"),
        ([*FIRST[:3], "torch 2.7.0"], "torch 2.6.0 and torch 2.7.0"),
    ],
)
def test_other_machines_or_libraries_are_named(tmp_path: Path, second: list[str], told: str) -> None:
    found = board(tmp_path, second)
    assert found.facts["machines"] == [told]
    assert f"Not all runs were computed alike ({told}), so they can differ in the last bits." in explanation(found)


@pytest.mark.parametrize("second", [FIRST, []], ids=["the same", "a run that trains nothing"])
def test_equal_machines_are_not_mentioned(tmp_path: Path, second: list[str]) -> None:
    found = board(tmp_path, second)
    assert "machines" not in found.facts
    assert not any("last bits" in line for line in explanation(found))


def test_this_machine_is_described() -> None:
    described = {"versions": versions(), "machine": machine()}
    assert {"torch", "torchvision", "timm", "numpy", "pillow", "levelfield", "python"} == set(versions())
    assert len(bits(described)) == 3 + len(versions()) - 2
    assert bits({**described, "versions": {**versions(), "levelfield": "9"}}) == bits(described)


def test_a_gpu_without_deterministic_kernels_is_said_in_run_yaml_and_leaderboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "Pretended GPU")
    spec = planned(["margin"], seeds=1)[0].spec
    steady = spec.model_copy(update={"conditions": spec.conditions.model_copy(update={"deterministic": True})})
    described = machine_of(spec, "cuda")["machine"]
    assert (described["gpu"], described["bits"]) == ("Pretended GPU", "can differ")
    assert {"cuda", "cudnn"} <= described.keys()
    assert "bits" not in machine_of(steady, "cuda")["machine"]
    assert machine_of(spec, "cpu")["machine"] == machine()

    by = list(bits(machine_of(spec, "cuda")))
    assert "gpu Pretended GPU" in by
    told = "On a GPU, without `deterministic: true`: the same study again can differ in the last bits."
    assert told in explanation(board(tmp_path / "any", by))
    assert told not in explanation(board(tmp_path / "same", list(bits(machine_of(steady, "cuda")))))
