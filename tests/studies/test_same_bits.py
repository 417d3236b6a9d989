"""The number of jobs does not change the result of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_world import small_study

from levelfield.studies import resolve
from levelfield.studies.execution import workers as execution
from levelfield.studies.runs.run import Options

LEARNED = ("model.safetensors", "embeddings.npy")


def bits(folder: Path) -> list[object]:
    return [*((folder / name).read_bytes() for name in LEARNED), figures(folder)]


def figures(folder: Path) -> dict[str, float]:
    values: dict[str, float] = json.loads((folder / "metrics.json").read_text())["values"]
    return values


@pytest.mark.usefixtures("quick_processes")
def test_the_number_of_jobs_changes_no_bit(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, ["margin", "normalized_softmax"], cut="last-1", overrides=("seeds=2",))
    runs = resolve(study).runs
    for jobs in (1, 2):
        options = Options(cache_folder=tmp_path / f"cache{jobs}")
        outcome = execution.run_all(runs, tmp_path / str(jobs), study.metrics, jobs=jobs, options=options)
        assert not outcome.failed
    for run in runs:
        assert bits(run.folder(tmp_path / "1")) == bits(run.folder(tmp_path / "2"))
    assert bits(runs[0].folder(tmp_path / "1")) != bits(runs[2].folder(tmp_path / "1")), "another seed, other weights"
