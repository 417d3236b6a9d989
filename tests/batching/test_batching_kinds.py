"""What each batching does besides the laws of all: coverage, repeats, roles, distributions of draws."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield import batching
from levelfield.batching._decks import deal_many, draw
from levelfield.batching.balanced import cover
from levelfield.batching.episodes import with_replacement
from levelfield.batching.random import with_pair
from levelfield.errors import BadSpecification

LABELS = np.repeat(np.arange(10), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11])


def make(name, labels=LABELS, batch_size=12, **chosen):
    return batching.create(name, labels, batch_size=batch_size, **chosen)


def test_a_batching_may_come_from_a_file(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "from levelfield.batching import Batching\n"
        "class First(Batching):\n"
        "    shift: int = 0\n"
        "    def _plan(self, stream, memory):\n"
        "        return np.tile(np.arange(self.batch_size) + self.shift, (self.batches, 1))\n"
    )
    name = f"{tmp_path}/mine.py:First"
    assert make(name, batch_size=3).plan(0)[0].tolist() == [0, 1, 2]
    assert make(name, batch_size=3, shift=4).plan(0)[0].tolist() == [4, 5, 6]


def test_a_batching_with_its_own_init_is_refused():
    with pytest.raises(BadSpecification, match=r"First has its own __init__.* use __post_init__"):

        class First(batching.Batching):
            def __init__(self, labels, *, samples_per_class=2, **common):
                super().__init__(labels, **common)


# spc and random


@given(
    st.lists(st.integers(2, 9), min_size=3, max_size=15),
    st.integers(1, 3),
    st.integers(1, 6),
    st.integers(1, 9),
    st.integers(0, 1000),
)
@settings(max_examples=150, deadline=None)
def test_spc_uses_classes_and_images_equally_often(sizes, n, k, batches, seed):
    k = min(k, len(sizes))
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)) * 7 + 3, sizes))
    plan = make("spc", labels, n * k, samples_per_class=n, batches_per_epoch=batches, seed=seed).plan(0)
    groups = labels[plan].reshape(batches, k, n)
    uses = np.array([(groups[..., 0] == label).sum() for label in np.unique(labels)])
    assert uses.max() - uses.min() <= 1
    for label, use, size in zip(np.unique(labels), uses, sizes, strict=True):
        if size >= n:
            used = np.unique(plan[labels[plan] == label])
            assert len(used) == min(size, use * n), "coverage of a class is min(1, u n / m)"


def test_random_uses_no_image_twice_in_an_epoch_until_more_batches_are_wanted():
    plan = make("random", batch_size=7).plan(3)
    assert plan.shape == (len(LABELS) // 7, 7)
    assert len(np.unique(plan)) == plan.size
    plan = make("random", np.zeros(10, int), 4, batches_per_epoch=10).plan(0)
    assert (np.bincount(plan.ravel()) == 4).all()


@pytest.mark.parametrize(("name", "n"), [("spc", 4), ("n_pair", 2)])
def test_small_classes_repeat_or_are_skipped_and_are_counted(name, n):
    labels = np.repeat(np.arange(5), [1, 2, 4, 4, 4])
    few = 2 if n == 4 else 1
    chosen = {"samples_per_class": n} if name == "spc" else {}
    sampler = make(name, labels, 8, small="skip", **chosen)
    assert (sampler.skipped, sampler.repeating) == (few, 0)
    assert set(labels[sampler.plan(0)].ravel()) <= set(range(few, 5))
    assert make(name, labels, 8, **chosen).repeating == few


# spc_r


def test_every_batch_of_spc_r_has_a_pair_of_different_images():
    labels = np.arange(300) // 2
    facts = batching.report(labels, make("spc_r", labels, 6, batches_per_epoch=500).plan(0))
    assert facts.anchors_with_positive.min() >= 2
    assert facts.classes.max() == 5  # the last image is of a class that is there
    labels = np.repeat(np.arange(20), 2)
    facts = batching.report(labels, make("spc_r", labels, 8, replace=True, batches_per_epoch=400).plan(0))
    assert facts.repeats.max() > 0
    assert facts.anchors_with_positive.min() == 0  # the last image may be its own partner


def test_free_images_of_spc_r_are_uniform_over_classes_with_as_many_pairs_as_expected():
    first = make("spc_r", np.array([0] * 10 + [1] * 90), 2, batches_per_epoch=20_000).plan(0)[:, 0]
    assert abs((first < 10).mean() - 0.5) < 0.02
    uses = np.bincount(first, minlength=100)
    assert abs(uses[:10] - uses[:10].mean()).max() < 6 * np.sqrt(uses[:10].mean())
    labels = np.arange(5864) % 100  # 100 classes, as in CUB; (b - 1)(b - 2) / 2C
    plan = make("spc_r", labels, 112, batches_per_epoch=300).plan(0)
    counts = np.stack([np.bincount(row, minlength=100) for row in labels[plan[:, :-1]]])
    assert (counts * (counts - 1) / 2).sum(1).mean() == pytest.approx(111 * 110 / 200, rel=0.02)


def test_the_partner_is_a_random_member_with_an_image_left_if_there_is_one():
    last = with_pair(np.array([[0, 1, 1, 2]] * 3000), np.array([1, 5, 5]), np.random.default_rng(0))[:, -1]
    shares = np.bincount(last, minlength=3) / len(last)
    assert shares[0] == 0
    assert abs(shares[1] - 2 / 3) < 0.05
    sizes = np.array([1, 2, 1, 4])
    paired = with_pair(np.array([[0, 1, 1]] * 2000), sizes, np.random.default_rng(0))
    assert set(paired[:, -1].tolist()) == {2, 3}
    assert abs((paired[:, -1] == 3).mean() - 0.8) < 0.05  # any unused image: 1 of class 2, 4 of class 3
    single = with_pair(np.array([[0, 2]] * 100), sizes, np.random.default_rng(0))
    assert set(map(tuple, single.tolist())) == {(0, 1, 1), (0, 3, 3)}  # the last free image is given up


# balanced and m_per_class


@given(st.lists(st.integers(1, 6), min_size=2, max_size=9), st.integers(1, 4), st.integers(0, 2**31))
@settings(max_examples=150, deadline=None)
def test_cover_takes_the_classes_with_most_chunks_left(chunks, count, seed):
    count = min(count, len(chunks))
    left = np.array(chunks)
    for taken in cover(left, count, np.random.default_rng(seed)):
        assert len(set(taken.tolist())) == count
        assert left[taken].min() >= max(1, np.delete(left, taken).max(initial=0))
        left[taken] -= 1
    assert (left > 0).sum() < count


def test_cover_uses_every_image_fills_the_last_chunk_and_goes_on_until_the_epoch_is_full():
    labels = np.repeat(np.arange(6), 5)  # chunks of 3 and 2 + 1
    plan = make("balanced", labels, 9, samples_per_class=3, mode="cover", batches_per_epoch=4).plan(0)
    assert batching.report(labels, plan).coverage == 1
    assert (np.bincount(plan.ravel()) <= 2).all()
    plan = make("balanced", samples_per_class=3, mode="cover", batches_per_epoch=50).plan(0)
    assert plan.shape == (50, 12)
    assert batching.report(LABELS, plan).coverage == 1


def test_draw_is_uniform_over_classes_and_refill_takes_more_of_them():
    plan = make("balanced", samples_per_class=3, batches_per_epoch=4000).plan(0)
    assert abs(np.bincount(LABELS[plan[:, ::3]].ravel()) / 4000 - 0.4).max() < 0.04  # 5 standard errors
    plan = make("balanced", samples_per_class=6, small="refill", batches_per_epoch=200).plan(0)
    facts = batching.report(LABELS, plan)
    assert facts.repeats.max() == 0
    assert facts.classes.max() >= 3


def test_a_redrawn_shape_is_a_divisor_of_the_batch_that_the_data_can_fill():
    sampler = make("balanced", np.repeat(np.arange(30), 27), 54, redraw_shape=True)
    seen = set()
    for epoch in range(60):
        groups = [np.unique(row, return_counts=True)[1] for row in sampler.labels[sampler.plan(epoch)]]
        assert len({tuple(sizes) for sizes in groups}) == 1, "one shape an epoch"
        assert len(set(groups[0].tolist())) == 1
        seen.add(len(groups[0]))
    assert seen == {2, 3, 6, 9, 18, 27}
    assert make("balanced", batch_size=24, redraw_shape=True).shapes == [2, 3, 4, 6, 8]


def test_m_per_class_draws_a_small_class_with_replacement():
    sampler = make("m_per_class", np.repeat(np.arange(4), 2), 8, samples_per_class=4, batches_per_epoch=500)
    distinct = [len(set(group)) for group in sampler.plan(0).reshape(-1, 4).tolist()]
    assert np.mean(np.array(distinct) == 1) == pytest.approx(1 / 8, abs=0.03)  # all four draws are one image
    assert sampler.repeating == 4


# roles: pairs and episodes


def test_pairs_are_an_anchor_and_a_positive_and_a_share_of_them_may_be_one_image():
    sampler = make("n_pair", batches_per_epoch=30)
    anchors, positives = (sampler.plan(0)[:, sampler.roles[name]] for name in ("anchor", "positive"))
    assert (LABELS[anchors] == LABELS[positives]).all()
    assert (anchors != positives).all()
    pairs = make("n_pair", same_image=0.1, batches_per_epoch=2000).plan(0).reshape(-1, 2)
    assert (pairs[:, 0] == pairs[:, 1]).mean() == pytest.approx(0.1, abs=0.015)


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
    labels, count = np.repeat(np.arange(len(sizes)), sizes), len(sizes) - 1
    size = episodes * count * (support + query)
    chosen = {"episodes": episodes, "support": support, "query": query, "replace": replace}
    sampler = make("episodes", labels, size, seed=seed, batches_per_epoch=3, **chosen)
    roles = sampler.roles
    assert sorted([*roles["support"], *roles["query"]]) == list(range(size))
    for batch in sampler.plan(0):
        for episode in range(episodes):
            inside = np.flatnonzero(roles["episode"] == episode)
            known, queries = (batch[np.intersect1d(inside, roles[role])] for role in ("support", "query"))
            classes = np.unique(labels[known])
            assert len(classes) == count
            assert (np.bincount(labels[known], minlength=len(sizes))[classes] == support).all()
            assert (np.bincount(labels[queries], minlength=len(sizes))[classes] == query).all()
            for label in classes:
                first, second = set(known[labels[known] == label]), set(queries[labels[queries] == label])
                assert not first & second or sizes[label] == 1
                if not replace:
                    assert len(first | second) == min(sizes[label], support + query), "all there are before a repeat"


def test_episodes_of_a_batch_may_share_classes_and_repeat_images_with_replacement():
    drawn = make("episodes", batch_size=16, episodes=4, support=1, query=1, batches_per_epoch=300)
    classes = LABELS[drawn.plan(0)][:, ::2]
    assert any(len(set(row)) < 8 for row in classes.tolist())
    assert abs(np.bincount(classes.ravel()) / 300 - 0.8).max() < 0.25
    drawn = make("episodes", batch_size=30, support=5, query=5, replace=True, batches_per_epoch=50)
    assert batching.report(LABELS, drawn.plan(0)).repeats.min() > 0
    for size, support in ((3, 4), (6, 2)):
        cards = with_replacement(np.full(20_000, size), support, 2, np.random.default_rng(0))
        for part in (cards[:, :support], cards[:, support:]):
            assert abs(np.bincount(part.ravel()) / part.size - 1 / size).max() < 0.01, "no image is preferred"


# decks


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=8),
    st.integers(1, 5),
    st.integers(0, 2**32),
)
@settings(max_examples=200, deadline=None)
def test_many_decks_obey_the_laws_of_one(decks, hand, seed):
    sizes, hands = np.array(decks).T
    dealt = deal_many(sizes, hands, hand=hand, stream=np.random.default_rng(seed))
    assert dealt.shape == (hands.sum(), hand)
    for size, count, rows in zip(sizes, hands, np.split(dealt, np.cumsum(hands)[:-1]), strict=True):
        assert len(rows) == count
        if not count:
            continue
        assert rows.min() >= 0
        assert rows.max() < size
        distinct = [len(set(row)) for row in rows.tolist()]
        assert distinct == [min(size, hand)] * count
        per_hand = [np.bincount(row, minlength=size) for row in rows]
        assert all(uses.max() - uses.min() <= 1 for uses in per_hand)
        if size >= hand:
            uses = np.bincount(rows.ravel(), minlength=size)
            assert uses.max() - uses.min() <= 1


@pytest.mark.parametrize(("size", "count"), [(4, 2), (9, 2), (30, 3)], ids=["shuffled", "ranked", "three"])
def test_every_hand_is_equally_likely(size, count):
    draws = 40_000
    hands = draw(np.full(draws, size), count, np.random.default_rng(0))
    assert hands.min() == 0
    assert hands.max() == size - 1
    assert (np.sort(hands, axis=1)[:, 1:] != np.sort(hands, axis=1)[:, :-1]).all()
    number = hands @ size ** np.arange(count)
    found = np.bincount(number, minlength=size**count)
    possible = [sum(c * size**i for i, c in enumerate(hand)) for hand in itertools.permutations(range(size), count)]
    expected = draws / len(possible)
    assert found.sum() == found[possible].sum()
    chi = ((found[possible] - expected) ** 2 / expected).sum()
    assert abs(chi - (len(possible) - 1)) < 5 * np.sqrt(2 * len(possible))  # 5 standard deviations of chi squared
