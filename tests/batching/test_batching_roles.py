"""Batchings with roles: pairs and episodes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield import batching
from levelfield.batching.episodes import divide_decks, with_replacement
from levelfield.errors import BadInput, BadSpecification

LABELS = np.repeat(np.arange(10), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11])


def test_pairs_are_an_anchor_and_a_positive_and_a_share_of_them_may_be_one_image():
    sampler = batching.create("n_pair", LABELS, batch_size=12, batches_per_epoch=30)
    anchors, positives = (sampler.plan(0)[:, sampler.roles[name]] for name in ("anchor", "positive"))
    assert (LABELS[anchors] == LABELS[positives]).all()
    assert (anchors != positives).all()
    sampler = batching.create("n_pair", LABELS, batch_size=12, same_image=0.1, batches_per_epoch=2000)
    pairs = sampler.plan(0).reshape(-1, 2)
    assert (pairs[:, 0] == pairs[:, 1]).mean() == pytest.approx(0.1, abs=0.015)


def test_a_class_with_one_image_pairs_with_itself_and_is_counted():
    labels = np.array([0, 1, 1, 2, 2])
    sampler = batching.create("n_pair", labels, batch_size=4)
    assert sampler.repeating == 1
    assert batching.create("n_pair", labels, batch_size=4, small="skip").skipped == 1
    with pytest.raises(BadInput, match="needs 3 classes; there are 2 with at least 2"):
        batching.create("n_pair", labels, batch_size=6, small="skip", batches_per_epoch=1)
    with pytest.raises(BadSpecification, match="5 is not a multiple of 2"):
        batching.create("n_pair", labels, batch_size=5)


@given(
    st.lists(st.integers(1, 9), min_size=3, max_size=9),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 3),
    st.booleans(),
    st.integers(0, 1000),
)
@settings(max_examples=150, deadline=None)
def test_support_and_query_of_an_episode_are_different_images(sizes, support, query, episodes, replace, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    count = len(sizes) - 1
    sampler = batching.create(
        "episodes",
        labels,
        batch_size=episodes * count * (support + query),
        episodes=episodes,
        support=support,
        query=query,
        replace=replace,
        seed=seed,
        batches_per_epoch=3,
    )
    roles = sampler.roles
    assert sorted([*roles["support"], *roles["query"]]) == list(range(sampler.batch_size))
    for batch in sampler.plan(0):
        for episode in range(episodes):
            inside = np.flatnonzero(roles["episode"] == episode)
            known, asked = (batch[np.intersect1d(inside, roles[role])] for role in ("support", "query"))
            classes = np.unique(labels[known])
            assert len(classes) == count
            assert (np.bincount(labels[known], minlength=len(sizes))[classes] == support).all()
            assert (np.bincount(labels[asked], minlength=len(sizes))[classes] == query).all()
            for label in classes:
                mine, theirs = set(known[labels[known] == label]), set(asked[labels[asked] == label])
                assert not mine & theirs or sizes[label] == 1
                if not replace:
                    assert len(mine | theirs) == min(sizes[label], support + query), "all there are before a repeat"


def test_episodes_of_a_batch_may_share_classes():
    drawn = batching.create("episodes", LABELS, batch_size=16, episodes=4, support=1, query=1, batches_per_epoch=300)
    classes = LABELS[drawn.plan(0)][:, ::2]
    assert any(len(set(row)) < 8 for row in classes.tolist())
    assert abs(np.bincount(classes.ravel()) / 300 - 0.8).max() < 0.25


def test_small_classes_are_divided_in_proportion():
    assert divide_decks(np.array([6]), 5, 5)[0].tolist() == [0, 1, 2, 0, 1, 3, 4, 5, 3, 4]
    assert divide_decks(np.array([2]), 4, 1)[0].tolist() == [0, 0, 0, 0, 1]
    assert divide_decks(np.array([4]), 1, 4)[0].tolist() == [0, 1, 2, 3, 1]


def test_with_replacement_an_image_may_come_twice():
    sampler = batching.create("episodes", LABELS, batch_size=30, support=5, query=5, replace=True, batches_per_epoch=50)
    assert batching.report(LABELS, sampler.plan(0)).repeats.min() > 0


def test_with_replacement_no_image_is_preferred():
    for size, support in ((3, 4), (6, 2)):
        cards = with_replacement(np.full(20_000, size), support, 2, np.random.default_rng(0))
        for part in (cards[:, :support], cards[:, support:]):
            assert abs(np.bincount(part.ravel()) / part.size - 1 / size).max() < 0.01


def test_what_episodes_need_is_said():
    with pytest.raises(BadSpecification, match=r"25 is not a multiple of 2 episode\(s\) x \(3 support \+ 2 query\)"):
        batching.create("episodes", LABELS, batch_size=25, episodes=2, support=3, query=2)
    with pytest.raises(BadInput, match="An episode needs 3 distinct classes; there are 2 with at least 10"):
        batching.create("episodes", LABELS, batch_size=30, small="skip")
    with pytest.raises(BadInput, match="8 of 10 classes have fewer than 10"):
        batching.create("episodes", LABELS, batch_size=20, small="error")
    with pytest.raises(BadSpecification, match="cannot be shared by 2 processes"):
        batching.create("episodes", LABELS, batch_size=20, world=2)
