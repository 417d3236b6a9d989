"""Dealing from decks against a slow loop, and independent draws against the probabilities of the rule."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield.batching._decks import deal, deal_many, draw, draw_decks


class Scripted:
    """A stream that gives prepared decks, so that the rule can be followed by hand."""

    def __init__(self, *decks):
        self.decks = list(decks)

    def permutation(self, size):
        deck = np.array(self.decks.pop(0))
        assert len(deck) == size
        return deck


def by_the_rule(decks, *, hand, hands):
    """Take the next cards; on a seam pass over those already in the hand, which keep their place."""
    decks = [list(deck) for deck in decks]
    left, result = decks.pop(0), []
    for _ in range(hands):
        taken = [left.pop(0) for _ in range(min(hand, len(left)))]
        if len(taken) < hand:
            left = decks.pop(0)
            for card in list(left):
                if len(taken) < hand and card not in taken:
                    taken.append(card)
                    left.remove(card)
        result.append(taken)
    return result


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_deal_follows_the_rule(data):
    size = data.draw(st.integers(1, 9))
    hand = data.draw(st.integers(1, size))
    hands = data.draw(st.integers(1, 12))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    decks = [rng.permutation(size).tolist() for _ in range(hand * hands // size + 1)]
    dealt = deal(size, hand=hand, hands=hands, stream=Scripted(*decks))
    assert dealt.tolist() == by_the_rule(decks, hand=hand, hands=hands)


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


def sequences(sizes, count):
    """The chance of every sequence of decks, step by step from the rule."""
    chances = {(): 1.0}
    for _ in range(count):
        longer = {}
        for drawn, chance in chances.items():
            left = [deck for deck, size in enumerate(sizes) if drawn.count(deck) < size]
            longer |= {(*drawn, deck): chance / len(left) for deck in left}
        chances = longer
    return chances


@pytest.mark.parametrize("sizes", [[1, 2, 4], [1, 9, 9, 9]])
def test_decks_are_drawn_uniformly_among_those_not_empty(sizes):
    rows = 30_000
    found = draw_decks(np.array(sizes), rows, 4, np.random.default_rng(3))
    expected = sequences(sizes, 4)
    counts = dict.fromkeys(expected, 0)
    for drawn in map(tuple, found.tolist()):
        counts[drawn] += 1  # one that is not possible has no place here
    for drawn, chance in expected.items():
        assert abs(counts[drawn] / rows - chance) < 5 * np.sqrt(chance / rows)
