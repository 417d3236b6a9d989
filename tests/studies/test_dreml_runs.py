"""DREML in a study: each member is a run, and one more run joins them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import small_world

import levelfield
from levelfield.errors import LevelfieldError
from levelfield.evaluation import joined
from levelfield.methods.dreml import partition
from levelfield.studies import resolve
from levelfield.studies.planning.cost_measured import estimate
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.runs.run import Options


def test_members_are_trained_alone_and_joined(photos: Path, tmp_path: Path) -> None:
    study = small_world.small_study(photos, [{"dreml": {"members": 3, "meta_classes": 2}}], overrides=("seeds=2",))
    runs = small_world.completed(study, tmp_path)
    *members, together = [run.folder(tmp_path) for run in runs if run.spec.seed == 0]
    rows = [np.load(folder / "embeddings.npy") for folder in members]
    assert [part.shape[1] for part in rows] == [2, 2, 2]
    assert len({part.tobytes() for part in rows}) == 3  # other meta classes, other draws
    np.testing.assert_array_equal(np.load(together / "embeddings.npy"), joined(rows))
    paths = [line.split(",")[0] for line in (together / "items.csv").read_text().splitlines()[1:]]
    np.testing.assert_array_equal(levelfield.load(together).embed(paths, normalize=False), joined(rows))
    board = {row.label: row for row in small_world.board_of(study, runs, tmp_path).rows}
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
        study = small_world.small_study(photos, [chosen], **start)
        runs = small_world.completed(study, tmp_path)
        assert all(np.isfinite(np.load(run.folder(tmp_path) / "embeddings.npy")).all() for run in runs)


def test_too_many_meta_classes_are_refused_before_anything_trains(photos: Path) -> None:
    with pytest.raises(LevelfieldError, match="'meta_classes' of 'dreml' is 12; it must be at most 4"):
        resolve(small_world.small_study(photos, ["dreml"]))
    with pytest.raises(LevelfieldError, match="partitions of 4 classes into 2 meta classes is 3"):
        resolve(small_world.small_study(photos, [{"dreml": {"meta_classes": 2, "members": 4}}]))
    assert len({partition(4, 2, member, seed=0).tobytes() for member in range(3)}) == 3


@pytest.mark.parametrize(("meta_classes", "proxies"), [(3, "learned"), (3, "static"), (2, "learned")])
def test_a_wider_head_and_the_parameters_of_all_members_are_told(
    photos: Path, tmp_path: Path, meta_classes: int, proxies: str
) -> None:
    dreml = {"members": 2, "meta_classes": meta_classes, "proxies": proxies}
    study = small_world.small_study(photos, [{"dreml": dreml}], dim=2)
    runs = small_world.completed(study, tmp_path)
    extra = meta_classes**2 if proxies == "learned" else 0
    extra += (meta_classes - 2) * (96 + 1)  # a column of the head for each number more, and its bias
    rows = {row.label: row for row in small_world.board_of(study, runs, tmp_path).rows}
    assert f"extra parameters {extra:,}" in rows["dreml (separated)"].deviations
    assert f"extra parameters {2 * extra:,}" in rows["dreml"].deviations
    told = {row.label: row for row in estimate(study, runs, options=Options(), jobs=1).rows}  # no first step fails
    assert told["dreml (separated)"].runs == 2
    assert {f"extra parameters {extra:,}"} <= set(told["dreml (separated)"].deviations)
