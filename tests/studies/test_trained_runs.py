"""What a run trains on, stores and drops: named views, spectra, switches, a head."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from small_world import completed, log_of, resolve, run_one, small_study

from levelfield.embedder import load
from levelfield.errors import BadSpecification
from levelfield.evaluation import spectral_decay
from levelfield.studies.runs.finished import stored_test
from levelfield.studies.runs.folder.files import read_spectrum
from levelfield.studies.runs.folder.store import read_result

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


@pytest.mark.parametrize("cut", ["frozen", "last-1"])
def test_rho_is_that_of_the_training_images_under_the_run_s_model(photos: Path, tmp_path: Path, cut: str) -> None:
    folder = run_one(small_study(photos, ["triplet"], cut=cut, dim=4), tmp_path)
    trained = sorted(path for path in photos.rglob("*.png") if path.parent.name < "class04")
    rows = load(folder).embed(trained)
    summary = json.loads((folder / "metrics.json").read_text())["summary"]
    assert summary["rho_train"] == pytest.approx(spectral_decay(rows), rel=1e-4)
    assert len(read_spectrum(folder, "spectrum")) == 4
    assert np.all(np.diff(read_spectrum(folder, "class_spectrum")) <= 0)


def test_a_depth_below_the_cut_is_refused_before_anything_runs(photos: Path) -> None:
    study = small_study(photos, [{"triplet": {"mixup": {"layers": ["blocks.2"]}}}])
    with pytest.raises(BadSpecification, match=r"'triplet'.*'blocks\.2' with cut 'frozen'"):
        resolve(study)


def test_a_switch_is_reached_by_a_preset_and_by_a_key(photos: Path, tmp_path: Path) -> None:
    methods = [{"label": "R", "margin": {"preset": "roth2020/cub/rho_beta06"}}, {"contrastive": {"switch": 0.5}}]
    runs = completed(small_study(photos, methods, steps=30), tmp_path)
    for run, share in zip(runs, (0.4, 0.5), strict=True):
        seen = [line["switched"] for line in log_of(run.folder(tmp_path))]
        assert all(0 <= value <= 1 for value in seen)
        assert max(seen) > 0, share


CONV4 = {"backbone": "conv4", "cut": "tuned", "views": 0, "batch": "2x3", "steps": 3, "lr": 0.01, "dim": 64}


def conv4_run(photos: Path, folder: Path, **conditions: Any) -> Path:
    return run_one(small_study(photos, ["contrastive"], **{**CONV4, **conditions}), folder)


def test_a_dropped_head_trains_and_the_features_below_it_are_the_embedding(photos: Path, tmp_path: Path) -> None:
    kept, dropped = conv4_run(photos, tmp_path), conv4_run(photos, tmp_path, head="dropped")
    with_head, without = load(kept), load(dropped)
    assert any("head" in name for name, _ in with_head.embedder.named_parameters())
    assert not any("head" in name for name, _ in without.embedder.named_parameters())
    for name, weight in without.embedder.trunk.state_dict().items():  # trained alike
        np.testing.assert_array_equal(weight, with_head.embedder.trunk.state_dict()[name])
    result = read_result(dropped)
    assert result.measured["dim"] == 64
    assert not result.deviations


def test_a_dropped_head_needs_as_many_dimensions_as_features(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(BadSpecification, match="set dim to 64, not 8"):
        conv4_run(photos, tmp_path, head="dropped", dim=8)


def test_images_are_tested_at_their_own_size(photos: Path, tmp_path: Path) -> None:
    run = conv4_run(photos, tmp_path, test_image=48)
    assert load(run).view.image == 48
    with pytest.raises(BadSpecification, match="pooling: grid needs one size"):
        conv4_run(photos, tmp_path, test_image=48, pooling="grid")
    steps = [{"resize": 32}, {"centre": 32}]
    with pytest.raises(BadSpecification, match="test_view ends with 32 pixels, but test_image is 48"):
        conv4_run(photos, tmp_path, test_image=48, test_view=steps)
