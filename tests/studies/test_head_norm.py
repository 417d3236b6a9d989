"""An objective for a network with a final layer norm gets one in its run, and the ledger lists it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from small_world import run_one, small_study

import levelfield
from levelfield.progress import SILENT
from levelfield.studies import resolve
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.setup import set_up

HIST = {"hist": {"hidden": 6}}


def test_the_test_rows_of_hist_are_what_its_loss_sees(photos: Path, tmp_path: Path) -> None:
    folder = run_one(small_study(photos, [HIST], head_init="pca"), tmp_path)
    rows = np.load(folder / "embeddings.npy")
    np.testing.assert_allclose(rows.mean(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose((rows**2).mean(axis=1), 1, atol=1e-3)
    told = [entry["text"] for entry in json.loads((folder / "training.json").read_text())["deviations"]]
    assert "head norm yes (no)" in told
    image = next(photos.rglob("*.png"))
    np.testing.assert_allclose(levelfield.load(folder).embed(image, normalize=False).mean(), 0, atol=1e-6)


@pytest.mark.parametrize("method", [{"hist": {"hidden": 6, "layer_norm": False}}, "normalized_softmax"])
def test_who_does_not_ask_for_it_keeps_the_common_head(photos: Path, tmp_path: Path, method: object) -> None:
    folder = run_one(small_study(photos, [method], head_init="pca"), tmp_path)
    assert abs(np.load(folder / "embeddings.npy").mean(axis=1)).max() > 1e-3
    told = [entry["what"] for entry in json.loads((folder / "training.json").read_text())["deviations"]]
    assert "head_norm" not in told


def test_the_linear_map_starts_where_everybodys_does_and_the_means_among_the_normed_rows(photos: Path) -> None:
    study = small_study(photos, [HIST, "normalized_softmax"], head_init="pca", proxies="class_means")
    specs = [run.spec for run in resolve(study).runs]
    inputs = inputs_for(specs[0], None, "cpu")
    hist, softmax = (set_up(spec, inputs, "cpu", SILENT) for spec in specs)
    assert hist.embedder.head.linear.weight.equal(softmax.embedder.head.linear.weight)
    means = hist.method.proxies.detach().numpy()
    np.testing.assert_allclose(means.mean(axis=1), 0, atol=1e-6)
    assert abs(softmax.method.proxies.detach().numpy().mean(axis=1)).max() > 1e-3


def test_the_norm_has_no_weights(photos: Path, tmp_path: Path) -> None:
    folder = run_one(small_study(photos, [HIST]), tmp_path)
    held = load_file(folder / "model.safetensors")
    assert sorted(name for name in held if name.startswith("head")) == ["head.linear.bias", "head.linear.weight"]
