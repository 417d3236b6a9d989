"""Decks: cards dealt and drawn at random, without repeats while a deck lasts."""

from __future__ import annotations

import numpy as np


def deal(size: int, *, hand: int, hands: int, stream: np.random.Generator) -> np.ndarray:
    """[hands, hand] numbers 0..size-1 from one deck; needs hand <= size.

    Each hand takes the next `hand` cards. If fewer are left, it takes them, then the first cards of a newly shuffled
    deck that are not yet in the hand; skipped cards keep their position. So uses differ by at most 1.
    """
    passes: list[np.ndarray] = []
    dealt = 0
    while dealt < hand * hands:
        deck = stream.permutation(size)
        begun = dealt % hand  # cards of the unfinished hand, all from the end of the last pass
        if begun:
            free = ~np.isin(deck, passes[-1][size - begun :])
            first = np.flatnonzero(free)[: hand - begun]
            deck = np.concatenate([deck[first], np.delete(deck, first)])
        passes.append(deck)
        dealt += size
    return np.concatenate(passes)[: hand * hands].reshape(hands, hand)


def deal_many(sizes: np.ndarray, hands: np.ndarray, *, hand: int, stream: np.random.Generator) -> np.ndarray:
    """[sum of hands, hand]: `deal` for many decks at once, deck by deck.

    sizes, hands: (decks,). A deck smaller than a hand restarts with each hand: all its cards once, then again in a new
    order until the hand is full. One sort of all cards per pass: O(cards dealt * log).
    """
    pieces = np.where(sizes < hand, hands, 1)  # a small deck becomes one deck for each of its hands
    needs = np.repeat(np.where(sizes < hand, 1, hands) * hand, pieces)
    sizes = np.repeat(sizes, pieces)
    starts = np.cumsum(sizes) - sizes  # where a deck's cards begin among all cards
    offsets = np.cumsum(needs) - needs  # where a deck's hands begin in the result
    result = np.empty(int(needs.sum()), dtype=np.int64)
    position = np.zeros(int(sizes.sum()), dtype=np.int64)  # of each card in the last pass of its deck
    done = 0
    while len(active := np.flatnonzero(needs > done * sizes)):
        size = sizes[active]
        deck = np.repeat(np.arange(len(active)), size)
        begin = np.repeat(np.cumsum(size) - size, size)
        within = np.arange(len(deck)) - begin
        card = within[np.argsort(deck + stream.random(len(deck)), kind="stable")]  # 20 times as fast as lexsort
        where = starts[active][deck] + card
        # A hand may be unfinished: its cards are the last `begun` of the previous pass. Move the first free cards to
        # the front.
        begun = np.where(size < hand, 0, (done * size) % hand)[deck]
        if begun.any():
            free = position[where] < size[deck] - begun
            count = np.cumsum(free)
            before = count - free - (count - free)[begin]
            front = (begun > 0) & free & (before < hand - begun)
            order = np.argsort((2 * deck + ~front) * size.max() + within, kind="stable")
            card, where = card[order], where[order]
        position[where] = within
        target = done * size[deck] + within
        wanted = target < needs[active][deck]
        result[(offsets[active][deck] + target)[wanted]] = card[wanted]
        done += 1
    return result.reshape(-1, hand)


def draw(sizes: np.ndarray, count: int, stream: np.random.Generator) -> np.ndarray:
    """[decks, count]: the first cards 0..size-1 of each freshly shuffled deck. Entries beyond its size are meaningless.
    Time at most O(decks * count^2) for any deck size."""
    widest = max(int(sizes.max(initial=0)), count)
    if widest <= count * count:  # shuffling all is faster
        keys = stream.random((len(sizes), widest))
        keys[np.arange(widest) >= sizes[:, None]] = 2.0  # after all real cards
        return np.argsort(keys, axis=1)[:, :count]
    hand = np.empty((len(sizes), count), dtype=np.int64)
    for column in range(count):
        card = stream.integers(np.maximum(sizes - column, 1))  # rank among the remaining cards
        for taken in np.sort(hand[:, :column], axis=1).T:
            card += card >= taken
        hand[:, column] = card
    return hand


def draw_decks(sizes: np.ndarray, rows: int, count: int, stream: np.random.Generator) -> np.ndarray:
    """[rows, count] indices of decks: each draw takes a card from a deck chosen uniformly among the non-empty ones.
    Every row starts with full decks; needs count <= number of cards."""
    decks = stream.integers(len(sizes), size=rows * count)
    row = np.repeat(np.arange(rows), count) * len(sizes)
    # Repeat draws from an empty deck. A deck that is empty before a draw stays empty if earlier draws are repeated, so
    # all draws can be checked together.
    while len(vain := np.flatnonzero(occurrences(row + decks) >= sizes[decks])):
        decks[vain] = stream.integers(len(sizes), size=len(vain))
    return decks.reshape(rows, count)


def occurrences(entries: np.ndarray) -> np.ndarray:
    """Number of earlier occurrences of each entry."""
    order = np.argsort(entries, kind="stable")
    ranked = entries[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    counts = np.arange(len(entries)) - np.repeat(starts, np.diff(np.r_[starts, len(entries)]))
    result = np.empty(len(entries), dtype=np.int64)
    result[order] = counts
    return result
