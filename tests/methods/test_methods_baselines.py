"""Baselines: untrained, random projection, initial head, closed-form LDA, whitened features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from levelfield import methods
from levelfield.errors import BadSpecification
from levelfield.evaluation import evaluate
from levelfield.methods import Setting


class Features:
    """20 classes whose difference lies in 3 of 24 directions, under louder noise in the others."""

    width = 24

    def __init__(self, first: int = 0) -> None:
        drawn = np.random.default_rng(first)
        self.labels = np.repeat(np.arange(20), 12)
        centres = np.zeros((20, self.width))
        centres[:, :3] = drawn.normal(0, 1, size=(20, 3))
        noise = np.where(np.arange(self.width) < 3, 0.2, 1.2)
        self._rows = (centres[self.labels] + drawn.normal(size=(240, self.width)) * noise).astype(np.float32)

    def rows(self) -> np.ndarray:
        return self._rows


SETTING = Setting(3, Features.width)


def create(name, **settings):
    return methods.create(name, num_classes=20, dim=3, **settings)


def embedded(head: nn.Module, features: Features) -> np.ndarray:
    with torch.no_grad():
        return head(torch.from_numpy(features.rows())).numpy()


def test_random_projection_is_linear_has_the_width_asked_for_and_follows_the_seed():
    features = Features()
    heads = [create("random_projection").head(features, Setting(3, Features.width, seed)) for seed in (0, 0, 1)]
    assert torch.equal(heads[0].linear.weight, heads[1].linear.weight)
    assert not torch.equal(heads[0].linear.weight, heads[2].linear.weight)
    rows = embedded(heads[0], features)
    assert rows.shape == (240, 3)
    weight = heads[0].linear.weight.detach().numpy()
    np.testing.assert_allclose(rows, features.rows() @ weight.T, rtol=1e-4, atol=1e-4)
    assert np.abs(weight).max() <= 1 / np.sqrt(24)


def test_lda_finds_the_directions_that_tell_classes_apart_for_new_images():
    train, test = Features(), Features(first=7)
    scores = {
        name: evaluate(embedded(create(name).head(train, SETTING), test), test.labels, metrics=("recall@1",))[
            "recall@1"
        ]
        for name in ("lda", "untrained", "random_projection")
    }
    assert scores["lda"] > 0.5
    assert scores["lda"] > 3 * max(scores["untrained"], scores["random_projection"])


def test_whitened_rows_of_training_images_are_uncorrelated_with_variance_one():
    features = Features()
    rows = embedded(create("whitened").head(features, SETTING), features).astype(np.float64)
    np.testing.assert_allclose(rows.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(np.cov(rows.T), np.eye(3), atol=1e-3)


def test_whitened_is_fitted_on_the_training_images_and_needs_no_seed():
    train, other = Features(), Features(first=7)
    heads = [create("whitened").head(train, Setting(3, Features.width, seed)) for seed in (0, 5)]
    assert torch.equal(heads[0].linear.weight, heads[1].linear.weight)
    assert not torch.equal(heads[0].linear.weight, create("whitened").head(other, SETTING).linear.weight)
    one, all_rows = other.rows()[:1], embedded(heads[0], other)
    with torch.no_grad():
        alone = heads[0](torch.from_numpy(one)).numpy()
    np.testing.assert_allclose(alone, all_rows[:1], rtol=1e-5, atol=1e-5)


def test_whitened_refuses_more_dimensions_than_features():
    with pytest.raises(BadSpecification, match=r"dim is 25, and there are 24 features\. Set conditions\.dim to 24"):
        create("whitened").head(Features(), Setting(25, Features.width))
