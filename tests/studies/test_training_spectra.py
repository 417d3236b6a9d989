"""Every training run records rho and the spectra of the training embeddings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small_world import carry_out, resolve, run_one, small_study

from levelfield.embedder import load
from levelfield.errors import BadSpecification
from levelfield.evaluation import spectral_decay
from levelfield.studies.runs.folder import spectra


@pytest.mark.parametrize("cut", ["frozen", "last-1"])
def test_rho_is_that_of_the_training_images_under_the_run_s_model(photos: Path, tmp_path: Path, cut: str) -> None:
    folder = run_one(small_study(photos, ["triplet"], cut=cut, dim=4), tmp_path)
    trained = sorted(path for path in photos.rglob("*.png") if path.parent.name < "class04")
    rows = load(folder).embed(trained)
    summary = json.loads((folder / "metrics.json").read_text())["summary"]
    assert summary["rho_train"] == pytest.approx(spectral_decay(rows), rel=1e-4)
    assert len(spectra.read(folder, "spectrum")) == 4
    assert np.all(np.diff(spectra.read(folder, "class_spectrum")) <= 0)


def test_what_trains_nothing_has_no_spectra(photos: Path, tmp_path: Path) -> None:
    folder = run_one(small_study(photos, ["lda"]), tmp_path)
    assert "rho_train" not in json.loads((folder / "metrics.json").read_text())["summary"]
    assert not (folder / spectra.FILE).exists()


def test_a_depth_below_the_cut_is_refused_before_anything_runs(photos: Path) -> None:
    study = small_study(photos, [{"triplet": {"mixup": {"layers": ["blocks.2"]}}}])
    with pytest.raises(BadSpecification, match=r"'triplet'.*'blocks\.2' with cut 'frozen'"):
        resolve(study)


def test_a_switch_is_reached_by_a_preset_and_by_a_key(photos: Path, tmp_path: Path) -> None:
    methods = [{"label": "R", "margin": {"preset": "roth2020/cub/rho_beta06"}}, {"contrastive": {"switch": 0.5}}]
    runs, outcome = carry_out(small_study(photos, methods, steps=30), tmp_path)
    assert not outcome.failed
    for run, share in zip(runs, (0.4, 0.5), strict=True):
        lines = (run.folder(tmp_path) / "log.jsonl").read_text().splitlines()
        seen = [json.loads(line)["switched"] for line in lines]
        assert all(0 <= value <= 1 for value in seen)
        assert max(seen) > 0, share
