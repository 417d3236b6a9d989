"""Batches chosen by embeddings: against slow loops written from the definitions, and their laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from scipy.stats import multivariate_normal, wasserstein_distance

from levelfield import batching
from levelfield.batching._groups import Groups, complete, draw_candidates, draw_groups, draw_images
from levelfield.batching.coresets import Density, chances, draw_coreset, farthest_first, squared_distances
from levelfield.batching.matching import DistanceScorer, FrechetScorer

AWARE = ["d2_coreset", "ddm", "frd", "greedy_coreset"]


def rows_of(seed, count=40, dim=6):
    return np.random.default_rng(seed).normal(size=(count, dim)) * np.linspace(0.2, 2, dim) + 3


def candidates_of(seed, count=40, size=12, many=5):
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(count)[:size] for _ in range(many)])


def all_distances(rows):
    return np.array([np.linalg.norm(rows[i] - rows[j]) for i in range(len(rows)) for j in range(i)])


@pytest.mark.parametrize("name", AWARE)
def test_small_classes_may_be_left_out(name):
    labels = np.repeat(np.arange(10), [1, 1, 5, 5, 5, 5, 5, 5, 2, 2])
    made = batching.create(name, labels, batch_size=9, samples_per_class=3, small="skip", pool=30)
    assert made.skipped == 4
    assert set(labels[made.plan(0, rows_of(0, len(labels)))].ravel()) <= set(range(2, 8))


def test_a_pool_larger_than_the_data_is_cut():
    labels = np.repeat(np.arange(6), 4)
    for name in AWARE:
        plans = [batching.create(name, labels, batch_size=6, pool=pool).plan(0, rows_of(1, 24)) for pool in (24, 512)]
        assert np.array_equal(*plans)


# pools


@given(st.lists(st.integers(1, 9), min_size=2, max_size=9), st.integers(1, 4), st.integers(1, 14), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_no_image_is_in_a_pool_twice_while_its_class_has_unused_ones(sizes, n, count, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    classes, images = draw_groups(Groups.of(labels, n), count, np.random.default_rng(seed))
    assert (labels[images] == classes[:, None]).all()
    uses = np.bincount(classes, minlength=len(sizes))
    assert uses.max() - uses.min() <= 1
    for label, (size, used) in enumerate(zip(sizes, uses, strict=True)):
        assert len(np.unique(images[classes == label])) == min(size, used * n) or size < n


def test_candidates_take_distinct_classes_and_any_of_their_groups():
    classes = np.array([0, 0, 0, 2, 5, 5])
    drawn = draw_candidates(classes, count=600, hand=2, stream=np.random.default_rng(0))
    assert all(len(set(classes[row])) == 2 for row in drawn)
    share = np.bincount(drawn.ravel(), minlength=6) / 600
    np.testing.assert_allclose(share, [2 / 9, 2 / 9, 2 / 9, 2 / 3, 1 / 3, 1 / 3], atol=0.06)


def test_a_pool_of_images_is_uniform_and_has_enough_classes():
    labels = np.repeat([0, 1, 2], [30, 2, 1])
    groups, stream = Groups.of(labels, 2), np.random.default_rng(0)
    pools = [draw_images(groups, labels, size=3, least=3, stream=stream) for _ in range(400)]
    assert all(set(labels[pool]) == {0, 1, 2} for pool in pools)
    assert all(len(set(pool.tolist())) == len(pool) for pool in pools)
    first = np.bincount(np.concatenate([pool[:3] for pool in pools]), minlength=33) / 400
    np.testing.assert_allclose(first, 1 / 11, atol=0.06)


def test_an_anchor_is_followed_by_others_of_its_class_drawn_uniformly():
    labels = np.repeat([0, 1], [4, 5])
    anchors = np.tile([[2, 6]], (600, 1))
    batches = complete(Groups.of(labels, 3), labels, anchors, np.random.default_rng(0)).reshape(600, 2, 3)
    assert (batches[:, :, 0] == [2, 6]).all()
    assert all(len(set(group)) == 3 for group in batches.reshape(-1, 3).tolist())
    others = np.bincount(batches[:, :, 1:].ravel(), minlength=9) / 600
    np.testing.assert_allclose(others, [2 / 3, 2 / 3, 0, 2 / 3, 1 / 2, 1 / 2, 0, 1 / 2, 1 / 2], atol=0.07)


# FRD


def frechet(data, batch):
    """The definition, with a matrix root."""
    one, two = np.atleast_2d(np.cov(data.T)), np.atleast_2d(np.cov(batch.T))
    gap = data.mean(axis=0) - batch.mean(axis=0)
    return gap @ gap + np.trace(one) + np.trace(two) - 2 * np.trace(np.atleast_2d(sqrtm(one @ two))).real


@pytest.mark.parametrize(("dim", "size"), [(1, 5), (3, 12), (20, 8), (60, 12)])
def test_frd_is_the_frechet_distance_for_any_rank(dim, size):
    data, chosen = rows_of(2, 40, dim), candidates_of(3, size=size)
    expected = [frechet(data, data[one]) for one in chosen]
    np.testing.assert_allclose(FrechetScorer(data)(chosen), expected, rtol=1e-5, atol=1e-6)
    apart = FrechetScorer(rows_of(9, 40, dim), data)(chosen)
    np.testing.assert_allclose(apart, [frechet(data, rows_of(9, 40, dim)[one]) for one in chosen], rtol=1e-5, atol=1e-6)


@given(st.integers(0, 1000), st.integers(2, 30), st.integers(1, 40), st.floats(-12, 6))
@settings(max_examples=60, deadline=None)
def test_frd_is_never_negative_nor_nan(seed, size, dim, magnitude):
    data = rows_of(seed, 40, dim) * 10**magnitude
    data[10:20] = data[0]
    found = FrechetScorer(data)(np.concatenate([candidates_of(seed, size=size), np.zeros((1, size), dtype=int)]))
    assert np.isfinite(found).all()
    assert found.min() >= -1e-10 * max(1, 10 ** (2 * magnitude))


def test_frd_of_all_data_against_itself_is_zero():
    assert abs(FrechetScorer(rows_of(0))(np.random.default_rng(0).permutation(40)[None])[0]) < 1e-10


# DDM


def binned(data, batch, bins):
    """The definition: distances one by one, bin by bin."""
    whole, part = all_distances(data), all_distances(batch)
    low, width = whole.min(), (whole.max() - whole.min()) / bins
    shares = np.zeros((2, bins))
    for row, values in enumerate((whole, part)):
        for value in values:
            shares[row, int(min(max((value - low) // width, 0), bins - 1))] += 1 / len(values)
    return width * np.abs(shares[0].cumsum() - shares[1].cumsum()).sum()


@pytest.mark.parametrize("bins", [1, 7, 50, 300])
def test_ddm_by_bins_is_that_of_a_slow_loop(bins):
    data, chosen = rows_of(4), candidates_of(5)
    expected = [binned(data, data[one], bins) for one in chosen]
    np.testing.assert_allclose(DistanceScorer(data, bins=bins)(chosen), expected, rtol=1e-9, atol=1e-12)
    apart = DistanceScorer(rows_of(9), data, bins=bins)(chosen)
    np.testing.assert_allclose(apart, [binned(data, rows_of(9)[one], bins) for one in chosen], rtol=1e-9, atol=1e-12)


@given(st.integers(0, 1000), st.integers(2, 12), st.sampled_from([1, 3, 6]))
@settings(max_examples=40, deadline=None)
def test_exact_ddm_is_the_wasserstein_distance(seed, size, dim):
    data, chosen = rows_of(seed, 20, dim).round(1), candidates_of(seed, 20, size)  # rounded: equal distances occur
    expected = [wasserstein_distance(all_distances(data), all_distances(data[one])) for one in chosen]
    np.testing.assert_allclose(DistanceScorer(data, bins=0)(chosen), expected, rtol=1e-9, atol=1e-7)


def test_ddm_looks_at_the_order_of_the_bins():
    """The released code compares the heights of bins as a set: mirrored distributions would be equal there."""
    line = np.array([0.0, 1, 2, 3, 4, 5, 6, 7])[:, None]
    near, far = DistanceScorer(line, bins=4)(np.array([[0, 1, 2], [0, 6, 7]]))
    assert near != far


def test_the_moments_are_those_of_the_embeddings():
    data, chosen = rows_of(8), candidates_of(9)
    plain, whole = (DistanceScorer(data, moments=moments)(chosen) for moments in (False, True))
    for one, without, found in zip(chosen, plain, whole, strict=True):
        gaps = [
            np.linalg.norm(measure(data[one]) - measure(data))
            for measure in (lambda rows: rows.mean(axis=0), lambda rows: rows.std(axis=0))
        ]
        assert found == pytest.approx(2 * 75 * without + sum(gaps))


@pytest.mark.parametrize("name", ["ddm", "frd"])
@pytest.mark.parametrize("shared", [False, True])
def test_the_chosen_batch_is_the_best_candidate(name, shared):
    """More candidates give better batches, against the data they should look like."""
    labels, rows = np.repeat(np.arange(30), 6), rows_of(1, 180)
    measure = FrechetScorer(rows) if name == "frd" else DistanceScorer(rows)
    scores = {}
    for count in (1, 40):
        made = batching.create(
            name, labels, batch_size=20, pool=60, candidates=count, shared=shared, batches_per_epoch=20
        )
        plan = made.plan(0, rows)
        scores[count] = measure(plan).mean()
        assert (len(np.unique(plan)) <= 60) is shared
    assert scores[40] < 0.9 * scores[1]


# GC


@given(st.integers(0, 1000), st.integers(2, 10), st.booleans())
@settings(max_examples=50, deadline=None)
def test_greedy_coreset_is_that_of_a_slow_loop(seed, k, by_class):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-3, 4, size=(30, 2)).astype(float)  # whole numbers: ties are exact
    classes = np.concatenate([np.arange(10), rng.integers(0, 10, size=20)]) if by_class else None
    start = int(rng.integers(30))
    selected, radii = [start], []
    while True:
        nearest = [min(sum((rows[i] - rows[j]) ** 2) for j in selected) for i in range(30)]
        radii.append(max(nearest) ** 0.5)
        if len(selected) == k:
            break
        free = [
            i
            for i in range(30)
            if i not in selected and (classes is None or classes[i] not in [classes[j] for j in selected])
        ]
        selected.append(max(free, key=lambda i: (nearest[i], -i)))
    found, radius = farthest_first(rows, k, start, classes=classes)
    assert found.tolist() == selected
    np.testing.assert_allclose(radius, radii, rtol=1e-12)


def test_anchors_of_the_plan_are_spread_wider_than_random_ones():
    """The released code applies indices of one pool to another one: its anchors are random."""
    labels, rows = np.arange(600) // 5, rows_of(0, 600, 4)

    def spread(batches):
        return np.mean([np.sort(np.linalg.norm(rows[b][:, None] - rows[b], axis=2), axis=1)[:, 1] for b in batches])

    chance = spread(batching.create("spc", labels, batch_size=40).plan(0)[:, ::2])
    pooled, everything = (
        spread(batching.create("greedy_coreset", labels, batch_size=40, pool=pool).plan(0, rows)[:, ::2])
        for pool in (200, "all")
    )
    assert everything > pooled > 1.3 * chance
    equal = farthest_first(np.ones((9, 3)), 9, 4)[0]
    assert equal.tolist() == [4, 0, 1, 2, 3, 5, 6, 7, 8], "no anchor comes twice when all points are equal"


# D2


@pytest.mark.parametrize("power", [0.0, 1.0, 2.5])
def test_d2_chances_are_those_of_the_definition(power):
    rows = rows_of(3, 25, 4)
    density = multivariate_normal(rows.mean(axis=0), np.cov(rows.T)).pdf(rows)
    ours, total, barred = Density(rows), np.zeros(25), np.zeros(25, dtype=bool)
    for chosen in ([4], [4, 9], [4, 9, 17]):
        total += squared_distances(ours.centred, (ours.centred**2).sum(axis=1), chosen[-1])
        barred[chosen] = True
        slow = [density[i] * sum(np.sum((rows[i] - rows[j]) ** 2) for j in chosen) ** power for i in range(25)]
        slow = np.where(barred, 0, slow)
        np.testing.assert_allclose(chances(ours.log, total, power, barred), slow / slow.sum(), rtol=1e-9, atol=1e-15)


def test_d2_draws_follow_the_chances():
    rows = rows_of(5, 12, 2)
    density = Density(rows)
    sums = ((rows - rows[3]) ** 2).sum(axis=1)
    expected = chances(density.log, sums, 1.0, np.arange(12) == 3)
    uniform = np.random.default_rng(0).random(4000)
    drawn = [draw_coreset(density, 3, uniform[i : i + 1], np.arange(12))[1] for i in range(4000)]
    np.testing.assert_allclose(np.bincount(drawn, minlength=12) / 4000, expected, atol=0.025)


def test_the_first_anchors_come_from_the_normal_distribution_of_the_pool():
    stream = np.random.default_rng(0)
    rows = rows_of(1, 50, 3)
    density = Density(rows)
    drawn = np.stack([density.draw(stream) for _ in range(3000)])
    np.testing.assert_allclose(drawn.mean(axis=0), rows.mean(axis=0), atol=0.15)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(rows.T), atol=0.35)


@pytest.mark.parametrize("spread", [1.0, 1e9])
def test_densities_are_finite_in_many_dimensions_and_for_singular_covariances(spread):
    for count, dim in ((512, 512), (30, 100), (600, 512)):
        log = Density(np.random.default_rng(0).normal(size=(count, dim)) * 1e-3).log
        assert np.isfinite(log).all()
        assert log.max() > 709  # the density itself would overflow
    flat = np.random.default_rng(0).normal(size=(60, 5)) @ np.random.default_rng(1).normal(size=(5, 9))
    flat *= np.linspace(1, spread, 9)
    density = Density(flat)
    assert np.isfinite(density.log).all()
    assert np.allclose(density.factor, np.tril(density.factor))
    covariance = np.cov(flat.T)
    np.testing.assert_allclose(density.factor @ density.factor.T, covariance, atol=1e-9 * np.trace(covariance))


def test_a_small_but_regular_covariance_is_left_alone_and_equal_points_are_drawn_alike():
    rows = rows_of(0, 40, 3) * [1, 1, 1e-5]  # smallest eigenvalue 1e-10 of the others
    expected = multivariate_normal(rows.mean(axis=0), np.cov(rows.T)).logpdf(rows)
    np.testing.assert_allclose(Density(rows).log, expected, rtol=1e-6)
    density = Density(np.full((6, 3), 0.1))
    equal = chances(density.log, np.zeros(6), 1.0, np.arange(6) == 2)
    np.testing.assert_allclose(equal, [0.2, 0.2, 0, 0.2, 0.2, 0.2])
    assert len(set(draw_coreset(density, 0, np.random.default_rng(0).random(5), np.arange(6)).tolist())) == 6
    with np.errstate(all="raise"):
        single = batching.create("d2_coreset", [3], batch_size=2, batches_per_epoch=1)
        assert single.plan(0, np.ones((1, 4))).tolist() == [[0, 0]]
