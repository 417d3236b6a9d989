"""Batches chosen by embeddings: pools, anchors, numerics, memory. The golden cases have the scores and the choices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from scipy.stats import multivariate_normal

from levelfield import batching
from levelfield.batching._groups import Groups, complete, draw_candidates, draw_groups, draw_images
from levelfield.batching.coresets import Density, draw_coreset, farthest_first, pick_probabilities
from levelfield.batching.matching import DistanceScorer, FrechetScorer
from levelfield.errors import BadInput

AWARE = ["d2_coreset", "ddm", "frd", "greedy_coreset"]
LABELS = np.repeat(np.arange(8), 6)
ROWS = np.random.default_rng(0).normal(size=(48, 5)).astype(np.float32)


def rows_of(seed, count=40, dim=6):
    return np.random.default_rng(seed).normal(size=(count, dim)) * np.linspace(0.2, 2, dim) + 3


def candidates_of(seed, count=40, size=12, many=5):
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(count)[:size] for _ in range(many)])


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
    pools = [draw_images(groups, size=3, least=3, stream=stream) for _ in range(400)]
    assert all(set(labels[pool]) == {0, 1, 2} for pool in pools)
    assert all(len(set(pool.tolist())) == len(pool) for pool in pools)
    first = np.bincount(np.concatenate([pool[:3] for pool in pools]), minlength=33) / 400
    np.testing.assert_allclose(first, 1 / 11, atol=0.06)


def test_an_anchor_is_followed_by_others_of_its_class_drawn_uniformly():
    labels = np.repeat([0, 1], [4, 5])
    anchors = np.tile([[2, 6]], (600, 1))
    batches = complete(Groups.of(labels, 3), anchors, np.random.default_rng(0)).reshape(600, 2, 3)
    assert (batches[:, :, 0] == [2, 6]).all()
    assert all(len(set(group)) == 3 for group in batches.reshape(-1, 3).tolist())
    others = np.bincount(batches[:, :, 1:].ravel(), minlength=9) / 600
    np.testing.assert_allclose(others, [2 / 3, 2 / 3, 0, 2 / 3, 1 / 2, 1 / 2, 0, 1 / 2, 1 / 2], atol=0.07)


# FRD and DDM


@pytest.mark.parametrize(("dim", "size"), [(20, 8), (60, 12)])
def test_frd_is_the_frechet_distance_for_any_rank(dim, size):
    data, chosen = rows_of(2, 40, dim), candidates_of(3, size=size)
    one = np.cov(data.T)
    for rows, score in zip(chosen, FrechetScorer(data)(chosen), strict=True):
        gap, two = data.mean(axis=0) - data[rows].mean(axis=0), np.cov(data[rows].T)
        expected = gap @ gap + np.trace(one) + np.trace(two) - 2 * np.trace(sqrtm(one @ two)).real
        assert score == pytest.approx(expected, rel=1e-5, abs=1e-6)


@given(st.integers(0, 1000), st.integers(2, 30), st.integers(1, 40), st.floats(-12, 6))
@settings(max_examples=60, deadline=None)
def test_frd_is_never_negative_nor_nan(seed, size, dim, magnitude):
    data = rows_of(seed, 40, dim) * 10**magnitude
    data[10:20] = data[0]
    found = FrechetScorer(data)(np.concatenate([candidates_of(seed, size=size), np.zeros((1, size), dtype=int)]))
    assert np.isfinite(found).all()
    assert found.min() >= -1e-10 * max(1, 10 ** (2 * magnitude))


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


def test_d2_draws_follow_the_chances():
    rows = rows_of(5, 12, 2)
    density = Density(rows)
    sums = ((rows - rows[3]) ** 2).sum(axis=1)
    expected = pick_probabilities(density.log, sums, 1.0, np.arange(12) == 3)
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
    equal = pick_probabilities(density.log, np.zeros(6), 1.0, np.arange(6) == 2)
    np.testing.assert_allclose(equal, [0.2, 0.2, 0, 0.2, 0.2, 0.2])
    assert len(set(draw_coreset(density, 0, np.random.default_rng(0).random(5), np.arange(6)).tolist())) == 6
    with np.errstate(all="raise"):
        single = batching.create("d2_coreset", [3], batch_size=2, batches_per_epoch=1)
        assert single.plan(0, np.ones((1, 4))).tolist() == [[0, 0]]


# memory


def make(name="ddm", labels=LABELS, **settings):
    return batching.create(name, labels, **{"batch_size": 8, "pool": 24, **settings})


def test_the_memory_is_a_copy_that_keeps_the_last_row_of_an_image_and_counts_its_age():
    given = np.zeros((48, 2))
    aware = make()
    aware.fill(given)
    given[:] = 7
    for step in range(3):
        aware.observe(np.array([1, 3, 1]), np.full((3, 2), step) + [[0.0], [0.25], [0.5]])
    assert aware.memory[:5, 0].tolist() == [0, 2.5, 0, 2.25, 0]
    assert aware.memory_age == 46 * 3 / 48
    aware.fill(np.ones((48, 2)))
    assert aware.memory_age == 0


@pytest.mark.parametrize(
    ("indices", "rows", "words"),
    [
        ([0, 1], np.ones((2, 4)), "rows of 5 dimensions; the new rows have 4"),
        ([0, 1], np.ones((3, 5)), r"per image of the batch is needed: expected shape \(2, dim\)"),
        ([0, 1], np.full((2, 5), np.nan), "image of the batch 0 contains NaN"),
        ([0, 1], np.array([[1.0] * 5, [np.inf] * 5]), "image of the batch 1 contains NaN or infinity"),
    ],
)
def test_rows_of_another_width_or_without_a_number_are_refused(indices, rows, words):
    aware = make()
    aware.fill(ROWS)
    with pytest.raises(BadInput, match=words):
        aware.observe(np.array(indices), rows)
    assert np.array_equal(aware.memory, ROWS)


def test_a_memory_of_another_length_without_a_number_or_empty_is_refused():
    for rows in (ROWS[:-1], ROWS[0], ROWS[:, :0], np.where(ROWS > 1, np.nan, ROWS)):
        for use in (make().fill, lambda rows: make().plan(0, rows)):
            with pytest.raises(BadInput, match="mbedding"):
                use(rows)
    for use in (lambda: make().plan(0), lambda: make().observe(np.array([0]), np.ones((1, 5)))):
        with pytest.raises(BadInput, match="`fill`"):
            use()


@pytest.mark.parametrize("name", AWARE)
def test_a_plan_is_made_once_an_epoch_and_equals_the_pure_one(name):
    aware = make(name)
    aware.fill(ROWS)
    first = aware.plan(0)
    assert np.array_equal(first, make(name).plan(0, ROWS))
    for step in range(3):
        aware.observe(first[step], ROWS[first[step]] + 3)
    assert np.array_equal(aware.plan(0), first), "the memory has changed, the plan of the epoch has not"
    now = aware.memory.copy()
    assert not np.array_equal(now, ROWS)
    assert np.array_equal(aware.plan(1), make(name).plan(1, now))
    assert not np.array_equal(aware.plan(1), make(name).plan(1, ROWS)), "it was planned from what was learned"


@pytest.mark.parametrize("name", AWARE)
@pytest.mark.parametrize("refresh", ["steps", "epoch", "never"])
def test_resuming_in_the_middle_of_an_epoch_gives_the_same_batches(name, refresh, tmp_path):
    def walk(aware, epochs, stop=None):
        """Batches of these epochs, with a model that drifts; stops after so many."""
        taken = []
        for _ in range(epochs):
            if aware.is_due(aware.epoch):
                aware.fill(ROWS * (1 + aware.epoch))
            for batch in aware:
                drift = np.cos(np.array(batch)[:, None] * np.arange(5) + aware.steps)
                aware.observe(np.array(batch), drift)
                taken.append(batch)
                if len(taken) == stop:
                    return taken
        return taken

    unhurt = make(name, refresh=refresh)
    whole = walk(unhurt, 3)
    struck = make(name, refresh=refresh)
    first = walk(struck, 3, stop=8)
    torch.save(struck.state_dict(), tmp_path / "state")
    again = make(name, refresh=refresh)
    again.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    assert first + walk(again, 2) == whole
    assert np.array_equal(again.memory, unhurt.memory)
    assert again.memory_age == unhurt.memory_age


def test_a_saved_state_does_not_change_with_the_memory_and_fits_no_other_settings():
    aware = make()
    aware.fill(ROWS)
    aware.plan(0)
    state = aware.state_dict()
    aware.observe(np.arange(8), np.ones((8, 5)))
    assert np.array_equal(state["memory"].numpy(), ROWS)
    for change in ({"pool": 25}, {"refresh": "never"}, {"bins": 7}, {"candidates": 3}):
        with pytest.raises(BadInput, match="other"):
            make(**change).load_state_dict(state)
