"""Results of the line experiments, seed by seed. Thresholds were set on other seeds, with wide tolerance."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch

from levelfield.errors import BadSpecification
from levelfield.papers import toy
from levelfield.papers.toy import Figures, Setting, figures_of, train

SEEDS = (0, 1, 2)
PLAIN = Setting("contrastive")
SWITCHED = Setting("switch", 0.7)
RELEASED = Setting("released", 0.001, "all", pull=False)


@functools.cache
def measured(form: str, setting: Setting, seed: int) -> Figures:
    return figures_of(train(form, setting, seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_only_with_the_switch_the_vertical_test_lines_separate(seed: int) -> None:
    plain, switched = measured("vertical", PLAIN, seed), measured("vertical", SWITCHED, seed)
    assert plain.arc < 0.02
    assert plain.recall_002 < 0.35
    assert plain.train_recall == 1
    assert switched.arc > 0.1
    assert switched.recall_002 > 0.5
    assert switched.train_recall >= 0.7
    assert switched.rho < min(0.3, plain.rho - 0.1)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_released_script_spreads_the_diagonal_because_it_drops_the_positive_term(seed: int) -> None:
    plain, released = measured("diagonal", PLAIN, seed), measured("diagonal", RELEASED, seed)
    assert released.rho < 0.1
    assert plain.rho > 0.3
    assert released.arc > 1.5 * plain.arc
    assert released.recall_005 > plain.recall_005


def test_a_seed_gives_the_same_rows_and_all_settings_have_the_same_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "STEPS", 20)
    first, again, other = (train("vertical", s, 3) for s in (PLAIN, PLAIN, Setting("switch", 0.2)))
    assert torch.equal(first.test_rows, again.test_rows)
    assert torch.equal(first.train, other.train)
    assert not torch.equal(first.test_rows, other.test_rows)


def test_angles_are_around_the_mean_direction_also_across_the_cut_of_the_circle() -> None:
    turned = np.deg2rad([170.0, 180.0, 190.0])
    found = toy.angles(np.stack((np.cos(turned), np.sin(turned)), 1))
    np.testing.assert_allclose(found, np.deg2rad([-10, 0, 10]), atol=1e-12)


def test_a_switch_beyond_1_is_refused() -> None:
    with pytest.raises(BadSpecification, match="between 0 and 1"):
        Setting("wrong", 1.2)
