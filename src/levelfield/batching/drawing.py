"""Draw from freshly shuffled decks, many draws at once."""

from __future__ import annotations

import numpy as np


def draw(sizes: np.ndarray, count: int, stream: np.random.Generator) -> np.ndarray:
    """[decks, count]: the first cards 0..size-1 of each freshly shuffled deck. Entries beyond its size are meaningless.

    Time at most O(decks * count^2) for any deck size.

    >>> hand = draw(np.array([3, 100]), 3, np.random.default_rng(0))
    >>> sorted(hand[0].tolist()), len(set(hand[1].tolist()))
    ([0, 1, 2], 3)
    """
    widest = max(int(sizes.max(initial=0)), count)
    if widest <= count * count:  # shuffling all is faster
        keys = stream.random((len(sizes), widest))
        keys[np.arange(widest) >= sizes[:, None]] = 2.0  # after all real cards
        return np.argsort(keys, axis=1)[:, :count]
    hand = np.empty((len(sizes), count), dtype=np.int64)
    for place in range(count):
        card = stream.integers(np.maximum(sizes - place, 1))  # rank among the remaining cards
        for taken in np.sort(hand[:, :place], axis=1).T:
            card += card >= taken
        hand[:, place] = card
    return hand


def draw_decks(sizes: np.ndarray, rows: int, count: int, stream: np.random.Generator) -> np.ndarray:
    """[rows, count] indices of decks: each draw takes a card from a deck chosen uniformly among the non-empty ones.

    Every row starts with full decks; needs count <= number of cards.

    >>> draw_decks(np.array([1, 1, 2]), 2, 4, np.random.default_rng(0)).sum(axis=1).tolist()  # all cards: 0, 1, 2, 2
    [5, 5]
    """
    emptied = int(np.searchsorted(np.cumsum(np.sort(sizes)), count, side="right"))  # decks a row can use up at most
    if 2 * emptied > len(sizes):
        return np.stack([_race(sizes, count, stream) for _ in range(rows)])
    found = stream.integers(len(sizes), size=rows * count)
    row = np.repeat(np.arange(rows), count) * len(sizes)
    # Repeat draws from an empty deck. A deck that is empty before a draw stays empty if earlier draws are repeated, so
    # all draws can be checked together.
    while len(vain := np.flatnonzero(occurrences(row + found) >= sizes[found])):
        found[vain] = stream.integers(len(sizes), size=len(vain))
    return found.reshape(rows, count)


def _race(sizes: np.ndarray, count: int, stream: np.random.Generator) -> np.ndarray:
    """One row of `draw_decks`, by independent Poisson processes of the decks."""
    waits = np.cumsum(stream.exponential(size=int(sizes.sum())))
    starts = np.cumsum(sizes) - sizes
    times = waits - np.repeat(np.where(starts > 0, waits[starts - 1], 0.0), sizes)
    return np.repeat(np.arange(len(sizes)), sizes)[np.argsort(times)[:count]]


def occurrences(entries: np.ndarray) -> np.ndarray:
    """Number of earlier occurrences of each entry.

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
