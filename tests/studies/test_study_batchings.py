"""Batchings in a study: their settings, roles, records, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_world import make_photos, run_one, small_study, told

from levelfield.errors import LevelfieldError
from levelfield.objectives.n_pair import NPair
from levelfield.objectives.prototypical import Prototypical
from levelfield.studies import resolve


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_photos(tmp_path_factory.mktemp("photos_of_batchings") / "photos", classes=12, each=5)


def heard(monkeypatch: pytest.MonkeyPatch, kind: Any) -> list[Any]:
    """The roles that each call of an objective gets."""
    found: list[Any] = []
    plain = kind.forward

    def forward(self: Any, *arguments: Any, roles: Any = None, **more: Any) -> Any:
        found.append(roles)
        return plain(self, *arguments, roles=roles, **more)

    monkeypatch.setattr(kind, "forward", forward)
    return found


def test_episodes_with_prototypes(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roles = heard(monkeypatch, Prototypical)
    chosen = {"episodes": {"episodes": 2, "support": 2, "query": 1}}
    folder = run_one(small_study(photos, [{"prototypical": {"batching": chosen}}], batch="4x3"), tmp_path / "runs")
    assert len(roles) == 4  # one for each step
    assert {name: list(rows) for name, rows in roles[0].items()} == {
        "support": [0, 1, 3, 4, 6, 7, 9, 10],
        "query": [2, 5, 8, 11],
        "episode": [0] * 6 + [1] * 6,
    }
    content = told(folder)
    assert content["deviations"][0]["text"] == "batching episodes (episodes=2, support=2, query=1) (spc)"
    assert content["measured"]["epoch"]["anchors_with_positive"] == 12


def test_pairs_with_n_pair(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roles = heard(monkeypatch, NPair)
    study = small_study(photos, [{"n_pair": {"batching": "n_pair"}}], batch="4x2")
    folder = run_one(study, tmp_path / "runs")
    assert [list(rows) for rows in roles[-1].values()] == [[0, 2, 4, 6], [1, 3, 5, 7]]
    epoch = told(folder)["measured"]["epoch"]
    assert (epoch["classes"], epoch["repeats"], epoch["batches"]) == (4, 0, 3)
    assert epoch["coverage"] == pytest.approx(24 / 30)  # 6 training classes of 5: each twice in 3 batches of 4 classes


def test_a_batching_that_cannot_fit_is_refused_before_anything_trains(photos: Path) -> None:
    lone = [{"triplet": {"batching": {"spc": {"samples_per_class": 1}}}}]
    with pytest.raises(LevelfieldError, match=r"Method 'triplet': Batching 'spc' does not fit .* These fit"):
        resolve(small_study(photos, lone, batch="6"))
    with pytest.raises(LevelfieldError, match=r"Method 'margin': batch_size 12 is not a multiple of 1 episode"):
        resolve(small_study(photos, [{"margin": {"batching": "episodes"}}]))


def test_a_batch_too_large_for_one_of_the_folds_is_refused_before_training(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", classes=14, each=2)  # 7 train: folds leave 4, 5 and 5 of them
    folds = ("protocol={name: mlrc, folds: 3}",)
    fits = resolve(small_study(photos, ["triplet"], batch="4x2", overrides=folds)).runs
    assert sorted(run.spec.fold for run in fits if run.spec.fold is not None) == [0, 1, 2]
    with pytest.raises(LevelfieldError, match=r"Method 'triplet' in fold 0: A batch of 10 is too large for 8 images"):
        resolve(small_study(photos, ["triplet"], batch="5x2", overrides=folds))
