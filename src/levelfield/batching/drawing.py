"""Fresh draws: some cards of a newly shuffled deck, for many decks at once."""

from __future__ import annotations

import numpy as np


def draw(sizes: np.ndarray, count: int, stream: np.random.Generator) -> np.ndarray:
    """[decks, count]: the first cards 0..size-1 of each freshly shuffled deck. Beyond its size they mean nothing.

    Time O(decks * count^2) at most, however large the decks are.

    >>> hand = draw(np.array([3, 100]), 3, np.random.default_rng(0))
    >>> sorted(hand[0].tolist()), len(set(hand[1].tolist()))
    ([0, 1, 2], 3)
    """
    widest = max(int(sizes.max(initial=0)), count)
    if widest <= count * count:  # shuffling all is quicker
        keys = stream.random((len(sizes), widest))
        keys[np.arange(widest) >= sizes[:, None]] = 2.0  # behind all real cards
        return np.argsort(keys, axis=1)[:, :count]
    hand = np.empty((len(sizes), count), dtype=np.int64)
    for place in range(count):
        card = stream.integers(np.maximum(sizes - place, 1))  # its rank among those not yet taken
        for taken in np.sort(hand[:, :place], axis=1).T:
            card += card >= taken
        hand[:, place] = card
    return hand
