"""Draw from freshly shuffled decks, many draws at once."""

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


def draw_decks(sizes: np.ndarray, rows: int, count: int, stream: np.random.Generator) -> np.ndarray:
    """[rows, count] numbers of decks: each draw takes a card off a deck chosen uniformly among those not yet empty.

    Every row begins with full decks; needs count <= all cards.

    >>> draw_decks(np.array([1, 1, 2]), 2, 4, np.random.default_rng(0)).sum(axis=1).tolist()  # all cards: 0, 1, 2, 2
    [5, 5]
    """
    emptied = int(np.searchsorted(np.cumsum(np.sort(sizes)), count, side="right"))  # decks a row can use up at most
    if 2 * emptied > len(sizes):
        return np.stack([_race(sizes, count, stream) for _ in range(rows)])
    found = stream.integers(len(sizes), size=rows * count)
    row = np.repeat(np.arange(rows), count) * len(sizes)
    # Draws from an empty deck are repeated. A deck that is empty before a draw stays so when earlier ones are repeated,
    # so all may be looked at together.
    while len(vain := np.flatnonzero(occurrences(row + found) >= sizes[found])):
        found[vain] = stream.integers(len(sizes), size=len(vain))
    return found.reshape(rows, count)


def _race(sizes: np.ndarray, count: int, stream: np.random.Generator) -> np.ndarray:
    """As one row of `draw_decks`: decks give their cards at the times of independent Poisson processes."""
    waits = np.cumsum(stream.exponential(size=int(sizes.sum())))
    starts = np.cumsum(sizes) - sizes
    times = waits - np.repeat(np.where(starts > 0, waits[starts - 1], 0.0), sizes)
    return np.repeat(np.arange(len(sizes)), sizes)[np.argsort(times)[:count]]


def occurrences(entries: np.ndarray) -> np.ndarray:
    """How often each entry occurred before.

    >>> occurrences(np.array([7, 3, 7, 7])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(entries, kind="stable")
    ranked = entries[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    counts = np.arange(len(entries)) - np.repeat(starts, np.diff(np.r_[starts, len(entries)]))
    result = np.empty(len(entries), dtype=np.int64)
    result[order] = counts
    return result
