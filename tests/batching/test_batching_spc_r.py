"""SPC-R: random images and one pair."""

import numpy as np
import pytest

from levelfield import batching
from levelfield.batching.random import with_pair
from levelfield.errors import BadInput, BadSpecification


def spc_r(labels, batch_size, **settings):
    return batching.create("spc_r", labels, batch_size=batch_size, **settings)


def test_every_batch_has_a_pair_of_different_images():
    labels = np.arange(300) // 2
    plan = spc_r(labels, 6, batches_per_epoch=500).plan(0)
    facts = batching.report(labels, plan)
    assert facts.anchors_with_positive.min() >= 2
    assert facts.classes.max() == 5  # the last image is of a class that is there


def test_free_images_are_uniform_over_classes():
    labels = np.array([0] * 10 + [1] * 90)
    first = spc_r(labels, 2, batches_per_epoch=20_000).plan(0)[:, 0]
    assert abs((first < 10).mean() - 0.5) < 0.02
    uses = np.bincount(first, minlength=100)
    assert abs(uses[:10] - uses[:10].mean()).max() < 6 * np.sqrt(uses[:10].mean())


def test_pairs_of_the_free_part_are_as_many_as_expected():
    labels = np.arange(5864) % 100  # 100 classes, as in CUB; (b - 1)(b - 2) / 2C
    sampler = spc_r(labels, 112, batches_per_epoch=300)
    counts = np.stack([np.bincount(row, minlength=100) for row in labels[sampler.plan(0)[:, :-1]]])
    assert (counts * (counts - 1) / 2).sum(1).mean() == pytest.approx(111 * 110 / 200, rel=0.02)


def test_the_partner_is_a_random_member_with_an_image_left():
    sizes = np.array([1, 5, 5])
    last = with_pair(np.array([[0, 1, 1, 2]] * 3000), sizes, np.random.default_rng(0))[:, -1]
    shares = np.bincount(last, minlength=3) / len(last)
    assert shares[0] == 0
    assert abs(shares[1] - 2 / 3) < 0.05


def test_where_no_member_has_an_image_left():
    sizes = np.array([1, 2, 1, 4])
    paired = with_pair(np.array([[0, 1, 1]] * 2000), sizes, np.random.default_rng(0))
    assert set(paired[:, -1].tolist()) == {2, 3}
    assert abs((paired[:, -1] == 3).mean() - 0.8) < 0.05  # any unused image: 1 of class 2, 4 of class 3
    single = with_pair(np.array([[0, 2]] * 100), sizes, np.random.default_rng(0))
    assert set(map(tuple, single.tolist())) == {(0, 1, 1), (0, 3, 3)}  # the last free image is given up


def test_released_form_draws_with_replacement():
    labels = np.repeat(np.arange(20), 2)
    facts = batching.report(labels, spc_r(labels, 8, replace=True, batches_per_epoch=400).plan(0))
    assert facts.repeats.max() > 0
    assert facts.anchors_with_positive.min() == 0  # the last image may be its own partner


def test_what_it_needs_is_said():
    with pytest.raises(BadInput, match="needs a class with at least 2 images"):
        spc_r([0, 1, 2, 3], 2)
    with pytest.raises(BadSpecification, match="batch_size of 2"):
        spc_r([0, 0, 1, 1], 1)
    with pytest.raises(BadSpecification, match="replace=True"):
        spc_r([0, 0, 1, 1], 6, batches_per_epoch=1)
    assert spc_r([0, 0, 1, 1], 6, batches_per_epoch=1, replace=True).plan(0).shape == (1, 6)
