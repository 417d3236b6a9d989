"""The search gives every method the same number of trials and never sees a test class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from levelfield import data, methods
from levelfield.data import protocols
from levelfield.errors import BadSpecification
from levelfield.studies import parse_study
from levelfield.tuning import Trial, best, propose, search


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    drawn = np.random.default_rng(0)
    for number in range(8):
        folder = tmp_path / "photos" / f"class{number}"
        folder.mkdir(parents=True)
        colour = drawn.integers(0, 200, size=3)
        for image in range(4):
            pixels = (colour + drawn.integers(0, 56, size=(32, 32, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{image}.png")
    return tmp_path / "photos"


def test_the_first_trial_is_the_studys_own_setting_and_the_others_stay_in_range() -> None:
    settings = propose({"margin": (0.1, 0.4, "log"), "squared": [False, True]}, 9, first={"margin": 0.2, "swap": True})
    assert settings[0] == {"margin": 0.2, "swap": True}
    assert len(settings) == 9
    assert all(0.1 <= s["margin"] <= 0.4 and s["swap"] for s in settings)
    assert {s["squared"] for s in settings[1:]} == {False, True}


def test_the_same_seed_proposes_the_same_settings_and_another_seed_others() -> None:
    ranges = {"alpha": (1, 100, "log")}
    assert propose(ranges, 5, seed=1) == propose(ranges, 5, seed=1)
    assert propose(ranges, 5, seed=1) != propose(ranges, 5, seed=2)


def test_no_trial_at_all_is_refused() -> None:
    with pytest.raises(BadSpecification, match="at least 1"):
        propose({"alpha": (1, 2, "log")}, 0)


def test_the_best_trial_of_each_method_wins_and_the_earlier_one_on_a_tie() -> None:
    trials = [Trial("a", k, {}, {"recall@1": v}) for k, v in enumerate((0.1, 0.3, 0.3))]
    assert best([*trials, Trial("b", 0, {}, {"recall@1": 0.2})], "recall@1")["a"].number == 1


def test_every_trainable_method_of_the_demo_has_something_to_search() -> None:
    for name in ("contrastive", "triplet", "margin", "multi_similarity", "proxy_anchor", "normalized_softmax", "lda"):
        assert methods.search_ranges(name)


def test_choosing_leaves_the_test_classes_out(photos: Path) -> None:
    catalog = data.create(photos)
    standard = protocols.create("standard", catalog)[0]
    choosing = protocols.create("choosing", catalog, validation=0.5)[0]
    touched = np.concatenate([choosing.train, choosing.validation, choosing.test])
    assert not np.isin(touched, standard.test).any()
    assert sorted(touched) == sorted(standard.train)
    with pytest.raises(BadSpecification, match="validation"):
        protocols.create("choosing", catalog)


def test_a_search_tries_every_setting_once_and_reports_validation_values(photos: Path, tmp_path: Path) -> None:
    study = parse_study(
        {
            "data": str(photos),
            "conditions": {"image": 32, "taps": ["blocks.1"], "pooling": "grid", "dim": 4, "cache": True},
            "methods": [{"label": "fisher", "lda": {}}, "untrained"],
            "metrics": ["recall@1"],
        }
    )
    trials = search(study, trials=2, validation=0.5, out=tmp_path / "runs", jobs=0)  # in this process
    assert [(trial.method, trial.number) for trial in trials] == [("fisher", 0), ("fisher", 1)]
    assert all(0 <= trial.values["recall@1"] <= 1 for trial in trials)
