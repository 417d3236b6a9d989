"""Results of the line experiments, seed by seed. Thresholds were set on other seeds, with wide tolerance."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch

from levelfield.errors import BadSpecification
from levelfield.papers.toy import FORMS, Figures, Setting, draw, experiment, figures_of, train
from levelfield.papers.toy.statistics import angles, arc, noisy_recall, recall

SEEDS = (0, 1, 2)
PLAIN = Setting("contrastive")
SWITCHED = Setting("switch", 0.7)
RELEASED = Setting("released", 0.001, "all", pull=False)


@functools.cache
def measured(form: str, setting: Setting, seed: int) -> Figures:
    return figures_of(train(form, setting, seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_without_the_switch_test_lines_fall_onto_one_point(seed: int) -> None:
    found = measured("vertical", PLAIN, seed)
    assert found.arc < 0.02
    assert found.recall_002 < 0.35
    assert found.rho > measured("vertical", SWITCHED, seed).rho + 0.1
    assert found.train_recall == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_with_the_switch_test_lines_part(seed: int) -> None:
    found = measured("vertical", SWITCHED, seed)
    assert found.arc > 0.1
    assert found.recall_002 > 0.5
    assert found.rho < 0.3
    assert found.train_recall >= 0.7


def test_the_switch_does_not_mix_the_training_classes() -> None:
    assert np.median([measured("vertical", SWITCHED, seed).train_recall for seed in SEEDS]) >= 0.85


@pytest.mark.parametrize("seed", SEEDS)
def test_the_released_script_spreads_the_diagonal_because_it_drops_the_positive_term(seed: int) -> None:
    plain, released = measured("diagonal", PLAIN, seed), measured("diagonal", RELEASED, seed)
    assert released.rho < 0.1
    assert plain.rho > 0.3
    assert released.arc > 1.5 * plain.arc
    assert released.recall_005 > plain.recall_005


def test_the_same_seed_gives_the_same_rows_and_all_settings_see_the_same_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(experiment, "STEPS", 20)
    first, again, other = (train("vertical", s, 3) for s in (PLAIN, PLAIN, Setting("switch", 0.2)))
    assert torch.equal(first.test_rows, again.test_rows)
    assert torch.equal(first.train, other.train)
    assert not torch.equal(first.test_rows, other.test_rows)


@pytest.mark.parametrize("form", FORMS)
def test_every_class_is_15_points_of_its_line(form: str) -> None:
    for lines in (FORMS[form].train, FORMS[form].test):
        points, labels = draw(lines, torch.Generator().manual_seed(0))
        assert labels.bincount().tolist() == [15] * 4
        for label, (start, end) in enumerate(lines):
            own = points[labels == label]
            assert len(own.unique(dim=0)) == 15
            along = (own - torch.tensor(start)) @ (torch.tensor(end) - torch.tensor(start))
            length = torch.tensor(end).sub(torch.tensor(start)).square().sum()
            assert ((along >= -1e-6) & (along <= length + 1e-6)).all()


def test_angles_are_around_the_mean_direction_also_across_the_cut_of_the_circle() -> None:
    turned = np.deg2rad([170.0, 180.0, 190.0])
    found = angles(np.stack((np.cos(turned), np.sin(turned)), 1))
    np.testing.assert_allclose(found, np.deg2rad([-10, 0, 10]), atol=1e-12)
    assert arc(found) == pytest.approx(np.deg2rad(20))


def test_noise_shows_a_collapse_that_recall_does_not() -> None:
    labels = np.repeat(np.arange(4), 15)
    wide = np.sort(np.random.default_rng(0).uniform(0, 1, 60))
    narrow = wide / 1000
    assert recall(wide, labels) == recall(narrow, labels) > 0.9
    assert noisy_recall(wide, labels, 0.02) > 0.8
    assert noisy_recall(narrow, labels, 0.02) < 0.4


def test_a_switch_beyond_1_is_refused() -> None:
    with pytest.raises(BadSpecification, match="between 0 and 1"):
        Setting("wrong", 1.2)
