"""DRML and DREML in a study: beside a baseline, in members and joined, with their deviations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_world import board_of, completed, log_of, run_one, small_study, told

import levelfield
from levelfield.embedder.relation import RelationHead
from levelfield.errors import LevelfieldError
from levelfield.evaluation import joined
from levelfield.progress import SILENT
from levelfield.studies import resolve
from levelfield.studies.planning.cost_measured import estimate
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.setup import set_up

DRML = {"drml": {"objective": "proxy_anchor", "settings": {"preset": "zheng2021/cub/drml"}}}


def deviations(folder: Path) -> dict[str, Any]:
    return {deviation["what"]: deviation["method"] for deviation in told(folder)["deviations"]}


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


def test_members_are_trained_alone_and_joined(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, [{"dreml": {"members": 3, "meta_classes": 2}}], overrides=("seeds=2",))
    runs = completed(study, tmp_path)
    *members, together = [run.folder(tmp_path) for run in runs if run.spec.seed == 0]
    rows = [np.load(folder / "embeddings.npy") for folder in members]
    assert [part.shape[1] for part in rows] == [2, 2, 2]
    assert len({part.tobytes() for part in rows}) == 3  # other meta classes, other draws
    np.testing.assert_array_equal(np.load(together / "embeddings.npy"), joined(rows))
    paths = [line.split(",")[0] for line in (together / "items.csv").read_text().splitlines()[1:]]
    np.testing.assert_array_equal(levelfield.load(together).embed(paths, normalize=False), joined(rows))
    board = {row.label: row for row in board_of(study, runs, tmp_path).rows}
    assert board["dreml"].deviations == ["members 3 (1)", "dim 6 (8)", "trunk passes 3 (1)"]
    alone = [read_result(run.folder(tmp_path)).values["map@r"] for run in runs if run.spec.member is not None]
    assert board["dreml (separated)"].cells["map@r"].mean == pytest.approx(np.mean(alone))
    assert board["dreml (separated)"].seeds == [0, 1], "members are no seeds"
    assert board["dreml (separated)"].deviations == ["dim 2 (8)"]


@pytest.mark.parametrize(
    "settings", [{"proxies": "learned", "lr": 0.1}, {"proxies": "learned", "balanced": False}, {"members": 1}]
)
def test_every_form_trains_under_any_start(photos: Path, tmp_path: Path, settings: dict) -> None:
    chosen = {"dreml": {"members": 2, "meta_classes": 3, **settings}}
    for start in ({"head_init": "pca", "proxies": "class_means"}, {"head_init": "random", "proxies": "random"}):
        study = small_study(photos, [chosen], **start)
        runs = completed(study, tmp_path)
        assert all(np.isfinite(np.load(run.folder(tmp_path) / "embeddings.npy")).all() for run in runs)


def test_too_many_meta_classes_are_refused_before_anything_trains(photos: Path) -> None:
    with pytest.raises(LevelfieldError, match="'meta_classes' of 'dreml' is 12; it must be at most 4"):
        resolve(small_study(photos, ["dreml"]))
    with pytest.raises(LevelfieldError, match="partitions of 4 classes into 2 meta classes is 3"):
        resolve(small_study(photos, [{"dreml": {"meta_classes": 2, "members": 4}}]))


@pytest.mark.parametrize(("meta_classes", "proxies"), [(3, "learned"), (3, "static"), (2, "learned")])
def test_a_wider_head_and_the_parameters_of_all_members_are_told(
    photos: Path, tmp_path: Path, meta_classes: int, proxies: str
) -> None:
    dreml = {"members": 2, "meta_classes": meta_classes, "proxies": proxies}
    study = small_study(photos, [{"dreml": dreml}], dim=2)
    runs = completed(study, tmp_path)
    extra = meta_classes**2 if proxies == "learned" else 0
    extra += (meta_classes - 2) * (96 + 1)  # a column of the head for each number more, and its bias
    rows = {row.label: row for row in board_of(study, runs, tmp_path).rows}
    assert f"extra parameters {extra:,}" in rows["dreml (separated)"].deviations
    assert f"extra parameters {2 * extra:,}" in rows["dreml"].deviations
    told = {row.label: row for row in estimate(runs, options=Options(), jobs=1).rows}  # no first step fails
    assert told["dreml (separated)"].runs == 2
    assert {f"extra parameters {extra:,}"} <= set(told["dreml (separated)"].deviations)
