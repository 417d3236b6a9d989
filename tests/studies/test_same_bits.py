"""Neither jobs nor the cache change the result of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from small_world import run_one, small_study

from levelfield.studies import resolve
from levelfield.studies.execution import workers as execution
from levelfield.studies.runs.run import Options

LITE0 = {"backbone": "tf_efficientnet_lite0", "weights": None}  # the one that studies have unless they name another
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


@pytest.mark.parametrize(
    "conditions",
    [
        LITE0 | {"cut": "last-1", "augment": "light", "views": 3, "proxies": "class_means", "head_init": "pca"},
        LITE0 | {"augment": "standard", "views": 2, "taps": ("blocks.2", "blocks.4"), "pooling": "grid"},
    ],
    ids=["last-1, three views", "frozen, two views"],
)
def test_training_with_the_cache_equals_training_without_it(
    photos: Path, tmp_path: Path, conditions: dict[str, Any]
) -> None:
    """Equal to rounding: the cached map was computed in blocks of 16, the other in batches of 12."""
    method = {"normalized_softmax": {"temperature": 0.1}}
    folders = [
        run_one(small_study(photos, [method], steps=6, cache=cache, **conditions), tmp_path / str(cache))
        for cache in (True, False)
    ]
    with_cache, without = (load_file(folder / "model.safetensors") for folder in folders)
    start = load_file(
        run_one(small_study(photos, ["start"], steps=6, **conditions), tmp_path / "start") / "model.safetensors"
    )
    assert with_cache.keys() == without.keys()
    moved = 0.0
    for name, weights in with_cache.items():
        np.testing.assert_allclose(weights, without[name], rtol=0, atol=2e-5, err_msg=name)
        moved = max(moved, float(np.abs(weights - start[name]).max()))
    assert moved > 2e-3, "the weights must have moved far more than the two differ"
    np.testing.assert_allclose(*(np.load(folder / "embeddings.npy") for folder in folders), rtol=0, atol=1e-3)
    np.testing.assert_allclose(*(list(figures(folder).values()) for folder in folders), atol=0.1)
