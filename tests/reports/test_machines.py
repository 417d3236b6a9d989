"""A leaderboard says when its runs come from machines or libraries that can differ in the last bits."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import METRICS, class_means, planned, write_run

from levelfield.reports.leaderboard.tables import explanation
from levelfield.studies.leaderboard.board import Leaderboard, gather
from levelfield.studies.runs.machine import bits, machine
from levelfield.studies.runs.run import versions

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


@pytest.mark.parametrize("second", [FIRST, []], ids=["the same", "a run of an earlier version"])
def test_equal_machines_are_not_mentioned(tmp_path: Path, second: list[str]) -> None:
    found = board(tmp_path, second)
    assert "machines" not in found.facts
    assert not any("last bits" in line for line in explanation(found))


def test_this_machine_is_described() -> None:
    described = {"versions": versions(), "machine": machine()}
    assert {"torch", "torchvision", "timm", "numpy", "pillow", "levelfield", "python"} == set(versions())
    assert len(bits(described)) == 3 + len(versions()) - 2
    assert bits({**described, "versions": {**versions(), "levelfield": "9"}}) == bits(described)
