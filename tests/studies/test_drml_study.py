"""DRML in a study: next to its baseline, with its deviations, killed and resumed; and the use of its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from small_world import SMALL, log_of, resolve, run_one, small_study, told

import levelfield
from levelfield.embedder.relation import RelationHead
from levelfield.progress import SILENT
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.setup import set_up

DRML = {"drml": {"objective": "proxy_anchor", "settings": {"preset": "zheng2021/cub/drml"}}}


def deviations(folder: Path) -> dict[str, Any]:
    return {deviation["what"]: deviation["method"] for deviation in told(folder)["deviations"]}


def test_compare_trains_it_beside_its_baseline(photos: Path, tmp_path: Path) -> None:
    methods = ["cosface", "drml", {"label": "drml-triplet", "drml": {"objective": "triplet", "branches": 2}}]
    study = {"name": "small", "data": str(photos), "methods": methods, "conditions": SMALL, "seeds": 1}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({**study, "metrics": ["recall@1"]}))
    board = levelfield.compare(tmp_path / "study.yaml", out=tmp_path / "out", jobs=0).leaderboard
    assert {row.label for row in board.rows} == {"cosface", "drml", "drml-triplet"}


@pytest.mark.parametrize(
    "conditions",
    [
        {},
        {"cut": "last-1", "layer_norm": "affine", "precision": "bf16"},
        {"proxies": "class_means", "head_init": "pca"},
    ],
    ids=["frozen", "last-1 in bf16", "class means and components"],
)
def test_a_run_declares_what_it_did_and_its_model_gives_its_bits(
    photos: Path, tmp_path: Path, conditions: dict[str, Any]
) -> None:
    folder = run_one(small_study(photos, [DRML], **conditions), tmp_path)
    model = levelfield.load(folder)
    assert isinstance(model.embedder.head, RelationHead)
    assert model.dim == 8
    said = deviations(folder)
    assert said["lr_of_proxies"] == said["lr_of_branch_proxies"] == 10
    head = sum(parameter.numel() for parameter in model.embedder.head.parameters())
    width = model.embedder.trunk.width
    common = width * 8 + 8 + (2 * width if "layer_norm" in conditions else 0)
    extra = head - common + 2 * 4 * 8  # twice four training classes
    assert said.get("extra_parameters", 0) == max(0, extra)
    assert "start" not in said
    assert set(log_of(folder)[0]["terms"]) == {"branches", "final", "reconstruction"}
    stored = np.load(folder / "embeddings.npy")
    tested = sorted(photos.rglob("*.png"))[-len(stored) :]  # the last classes
    assert np.array_equal(model.embed(tested, normalize=False), stored)


@pytest.mark.parametrize("start", ["random", "pca", "whitened"])
def test_it_starts_where_the_conditions_say(photos: Path, tmp_path: Path, start: str) -> None:
    """From components the nodes are the same for all seeds; what the common head does not have is drawn."""
    found = []
    for seed in (0, 1):
        (run,) = resolve(small_study(photos, [DRML], overrides=(f"seeds=[{seed}]",), head_init=start)).runs
        inputs = inputs_for(run.spec, tmp_path / "cache", "cpu")
        setup = set_up(run.spec, inputs, "cpu", SILENT)
        found.append(setup.embedder.head)
    first, second = found
    rows = torch.from_numpy(inputs.start_features(SILENT).rows())
    nodes = [head.eval()(rows).detach() for head in found]
    assert torch.equal(*nodes) == (start != "random")
    assert not torch.equal(first.score_weight, second.score_weight)


def test_a_head_with_another_start_is_a_deviation(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from levelfield.embedder.head import Head\n"
        "from levelfield.methods import Method\n"
        "from levelfield.objectives import Contrastive\n"
        "class Own(Method):\n"
        "    def __init__(self):\n"
        "        super().__init__(Contrastive())\n"
        "    def head(self, features, setting):\n"
        "        return Head(features.width, setting.dim)\n"
    )
    said = {}
    for start in ("random", "pca"):
        study = small_study(photos, [f"{tmp_path}/own.py:Own"], head_init=start)
        said[start] = deviations(run_one(study, tmp_path / start)).get("start")
    assert said == {"random": "its own", "pca": "its own"}  # nobody can see where an own head comes from
