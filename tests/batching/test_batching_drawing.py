"""Independent draws, against the probabilities of the rule."""

import itertools

import numpy as np
import pytest

from levelfield.batching import _decks as drawing
from levelfield.batching._decks import draw, draw_decks


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


def test_decks_of_different_sizes_are_drawn_together():
    sizes = np.array([3, 50, 1000])
    hands = draw(sizes, 3, np.random.default_rng(1))
    assert (hands < sizes[:, None]).all()
    assert sorted(hands[0].tolist()) == [0, 1, 2]


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


@pytest.mark.parametrize("sizes", [[1, 2, 4], [1, 9, 9, 9]], ids=["as a race", "with repeated draws"])
def test_decks_are_drawn_uniformly_among_those_not_empty(sizes):
    rows = 30_000
    found = draw_decks(np.array(sizes), rows, 4, np.random.default_rng(3))
    expected = sequences(sizes, 4)
    counts = dict.fromkeys(expected, 0)
    for drawn in map(tuple, found.tolist()):
        counts[drawn] += 1  # one that is not possible has no place here
    for drawn, chance in expected.items():
        assert abs(counts[drawn] / rows - chance) < 5 * np.sqrt(chance / rows)


def test_both_ways_are_used(monkeypatch):
    raced = []
    monkeypatch.setattr(drawing, "_race", lambda sizes, count, stream: raced.append(1) or np.zeros(count, dtype=int))
    draw_decks(np.array([9, 9, 9]), 2, 4, np.random.default_rng(0))
    assert not raced
    draw_decks(np.array([1, 2, 4]), 2, 4, np.random.default_rng(0))
    assert len(raced) == 2
