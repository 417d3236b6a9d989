"""Views by name in a run: training uses them, and the loaded model transforms images as the run did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from small_world import run_one, small_study

from levelfield.embedder import load
from levelfield.errors import BadSpecification
from levelfield.studies.runs.finished import stored_test

TRAIN = [{"resized_crop": {"size": 32, "area": [0.16, 1]}}, {"flip": 0.5}, {"erase": 0.5}]
TEST = [{"resize": [36, 36]}, {"centre": 32}]


@pytest.mark.parametrize("cut", ["frozen", "tuned"])
def test_a_loaded_model_gives_the_bits_its_run_stored(cut: str, photos: Path, tmp_path: Path) -> None:
    views = 0 if cut == "tuned" else 2
    folder = run_one(small_study(photos, ["margin"], cut=cut, train_view=TRAIN, test_view=TEST, views=views), tmp_path)
    rows, items = stored_test(folder)
    paths = items.paths
    assert np.array_equal(load(folder).embed(paths, normalize=False), rows)
    kept = yaml.safe_load((folder / "model.yaml").read_text())["view"]
    assert kept["steps"] == [{"resize": {"size": [36, 36]}}, {"centre": {"size": 32}}]


def test_other_steps_give_another_run_and_unknown_ones_are_refused(photos: Path, tmp_path: Path) -> None:
    folders = [
        run_one(small_study(photos, ["margin"], **views), tmp_path)
        for views in ({}, {"train_view": TRAIN}, {"train_view": TRAIN, "test_view": TEST})
    ]
    assert len({folder.name for folder in folders}) == 3
    stored = [stored_test(folder)[0] for folder in folders]
    assert not np.array_equal(stored[0], stored[1])
    assert not np.array_equal(stored[1], stored[2])
    with pytest.raises(BadSpecification, match=r"conditions.train_view: Unknown step of a view 'flop'. Did you mean"):
        small_study(photos, ["margin"], train_view=["flop"])
