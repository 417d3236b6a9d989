"""Dealing from decks, against the rule written as a slow loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield.batching._decks import deal, deal_many


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


def test_cards_passed_over_keep_their_place():
    decks = [0, 1, 2, 3, 4], [4, 3, 0, 1, 2], [0, 1, 2, 3, 4]
    dealt = deal(5, hand=3, hands=4, stream=Scripted(*decks))
    assert dealt.tolist() == [[0, 1, 2], [3, 4, 0], [4, 3, 1], [2, 0, 1]]


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


@pytest.mark.parametrize(("size", "hand"), [(5, 3), (4, 4), (7, 2), (3, 1)])
def test_many_decks_deal_every_pass_of_a_deck_completely(size, hand):
    rows = deal_many(np.array([size]), np.array([6 * size]), hand=hand, stream=np.random.default_rng(3))
    assert (np.sort(rows.reshape(-1, size), axis=1) == np.arange(size)).all()


def test_every_card_is_equally_likely_in_every_place():
    stream = np.random.default_rng(0)
    dealt = np.stack([deal_many(np.array([5]), np.array([3]), hand=2, stream=stream) for _ in range(4000)])
    shares = np.stack([(dealt == card).mean(axis=0) for card in range(5)])
    assert np.abs(shares - 0.2).max() < 0.03  # 4.7 standard errors of 4000 draws
