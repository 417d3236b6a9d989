"""What a run starts from: own parameters from the first embeddings where the conditions say so, and a final layer norm
where the objective wants one. The ledger lists both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from small_world import resolve, run_one, small_study, told

import levelfield
from levelfield.objectives._parts.start import StartRows, linear_classifier
from levelfield.progress import SILENT
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.setup import Setup, set_up

MESSAGES = {"message_passing": {"heads": 1}}
HIST = {"hist": {"hidden": 6}}


def started(photos: Path, method: Any, **conditions: Any) -> tuple[Setup, StartRows]:
    """A run before its first step, and the embeddings that it starts from."""
    run = resolve(small_study(photos, [method], overrides=("seeds=1",), **conditions)).runs[0]
    inputs = inputs_for(run.spec, None, "cpu")
    setup = set_up(run.spec, inputs, "cpu", SILENT)
    rows = inputs.embed(setup.embedder.eval(), inputs.fold.train, SILENT, coded=False)
    return setup, StartRows(torch.from_numpy(rows), torch.from_numpy(inputs.train_labels))


@pytest.mark.parametrize(
    ("method", "parts"),
    [
        (HIST, ["hgnn"]),
        ({"hist": {"relations": "linear"}}, []),
        (MESSAGES, ["head_weight", "network"]),
        ({"message_passing": {"message_weight": 0}}, []),
        *((name, []) for name in ("softmax", "group_loss", "soft_triple", "proxy_anchor", "margin", "triplet")),
        ({"margin": {"beta_per_class": True}}, []),
        ({"drml": {"objective": "softmax"}}, []),
        ({"dreml": {"members": 2, "meta_classes": 3, "proxies": "learned"}}, []),
        ("pml:ProxyAnchorLoss", []),
        ("pml:ArcFaceLoss", ["loss"]),
    ],
    ids=str,
)
def test_the_ledger_names_what_does_not_start_from_the_images(photos: Path, method: Any, parts: list[str]) -> None:
    assert started(photos, method, proxies="class_means", head_init="pca")[0].measured.own_starts == parts
    assert started(photos, method, proxies="random")[0].measured.own_starts == []


def test_softmax_starts_at_the_class_means_of_raw_rows(photos: Path) -> None:
    setup, start = started(photos, "softmax", proxies="class_means", head_init="pca")
    weight, bias = linear_classifier(start)
    torch.testing.assert_close(setup.method.objective.weight.data, weight)
    torch.testing.assert_close(setup.method.objective.bias.data, bias)


def test_a_branch_of_drml_starts_at_its_own_nodes(photos: Path) -> None:
    drml = {"drml": {"objective": "softmax", "branches": 2}}
    setup, start = started(photos, drml, proxies="class_means", head_init="pca")
    for branch, block in zip(setup.method.branches, start.blocks(2), strict=True):
        torch.testing.assert_close(block.rows.norm(dim=1), torch.ones(len(block.rows)))
        torch.testing.assert_close(branch.weight.data, linear_classifier(block)[0])


def test_the_test_rows_of_hist_are_what_its_loss_sees(photos: Path, tmp_path: Path) -> None:
    folder = run_one(small_study(photos, [HIST], head_init="pca", proxies="class_means"), tmp_path)
    rows = np.load(folder / "embeddings.npy")
    np.testing.assert_allclose(rows.mean(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose((rows**2).mean(axis=1), 1, atol=1e-3)
    texts = [entry["text"] for entry in told(folder)["deviations"]]
    assert {"head norm yes (no)", "start of hgnn its own (class_means)"} <= set(texts)
    weights = load_file(folder / "model.safetensors")  # the norm has none
    assert sorted(name for name in weights if name.startswith("head")) == ["head.linear.bias", "head.linear.weight"]
    image = next(photos.rglob("*.png"))
    np.testing.assert_allclose(levelfield.load(folder).embed(image, normalize=False).mean(), 0, atol=1e-6)


@pytest.mark.parametrize("method", [{"hist": {"hidden": 6, "layer_norm": False}}, "normalized_softmax"])
def test_who_does_not_ask_for_it_keeps_the_common_head(photos: Path, tmp_path: Path, method: object) -> None:
    folder = run_one(small_study(photos, [method], head_init="pca"), tmp_path)
    assert abs(np.load(folder / "embeddings.npy").mean(axis=1)).max() > 1e-3
    assert "head_norm" not in [entry["what"] for entry in told(folder)["deviations"]]


def test_the_linear_map_starts_where_everybodys_does_and_the_means_among_the_normed_rows(photos: Path) -> None:
    starts = {"head_init": "pca", "proxies": "class_means"}
    (hist, _), (softmax, _) = (started(photos, method, **starts) for method in (HIST, "normalized_softmax"))
    assert hist.embedder.head.linear.weight.equal(softmax.embedder.head.linear.weight)
    means = hist.method.proxies.detach().numpy()
    np.testing.assert_allclose(means.mean(axis=1), 0, atol=1e-6)
    assert abs(softmax.method.proxies.detach().numpy().mean(axis=1)).max() > 1e-3
