"""Queries and gallery sorted by class, so that the positives of a query are contiguous in memory, and their ranks.

There are no neighbour lists: for each positive of a query, the numbers of nearer and of tied other rows are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.search.distances import Change, Selection
from levelfield.evaluation.search.order import class_order
from levelfield.evaluation.search.products import in_tiles

EVERYWHERE = 2**62  # reach: every positive matters, at any rank
Ties = Literal["expected", "pessimistic", "optimistic"]
_PAIRS = 2**17  # (query, positive) pairs with groups in memory at a time


@dataclass(frozen=True)
class Arrangement:
    """Prepared rows sorted by class, padded to whole tiles (see `distances.Change` for `offset`).

    The positives of query i are the gallery rows `first[i]` to `last[i]` without `itself[i]`, the row that is the query
    itself (-1: none). `query_order[i]` and `gallery_order[j]` are the positions of the caller's rows.
    """

    query: Array
    gallery: Array
    offset: Array | None
    query_order: Array
    gallery_order: Array
    first: Array
    last: Array
    itself: Array
    symmetric: bool  # queries and gallery are the same rows

    @cached_property
    def positives(self) -> Array:
        """Number of positives of each query (R)."""
        return np.asarray(self.last - self.first - ((self.itself >= self.first) & (self.itself < self.last)))


def arrange(inputs: Inputs, *, distance: str) -> Arrangement:
    """Create the copy of the rows that the search uses."""
    columns = class_order(inputs.gallery, inputs.gallery_codes)
    gallery = Selection(inputs.gallery, columns, in_tiles(len(columns)))
    order, query = columns, gallery
    if not inputs.self_search:
        order = class_order(inputs.query, inputs.query_codes)
        query = Selection(inputs.query, order, in_tiles(len(order)))
    change = Change.of(query, gallery, distance=distance)
    rows = change.rows(gallery)
    codes, wanted = inputs.gallery_codes[columns], inputs.query_codes[order]
    position = np.full(len(columns) + 1, -1)  # the last entry is for id -1: no position
    position[columns] = np.arange(len(columns))
    return Arrangement(
        rows if inputs.self_search else change.rows(query),
        rows,
        change.offset(rows),
        order,
        columns,
        np.searchsorted(codes, wanted, "left"),
        np.searchsorted(codes, wanted, "right"),
        position[inputs.query_ids[order]],
        inputs.self_search,
    )


@dataclass(frozen=True)
class Counts:
    """Counts of the queries from `begin` to `end` of an arrangement, flat: those of query q begin at `starts[q -
    begin]`.

    `near` are the similarities to the positives, nearest first; `above` and `level` are the numbers of other rows that
    are nearer and tied. Both are exact for the first `active` positives of each query; later ones are beyond its reach.
    Memory: 12 bytes per (query, positive) pair in float32.
    """

    begin: int
    end: int
    starts: Array
    near: Array
    above: Array
    level: Array
    active: Array


def empty_counts(positives: Array, reach: Array, dtype: np.dtype[np.generic], begin: int = 0) -> Counts:
    """Empty counts of queries with these numbers of positives. One with at least `reach` nearer ones never matters."""
    starts = np.concatenate([[0], np.cumsum(positives)])
    pairs = int(starts[-1])
    return Counts(
        begin,
        begin + len(positives),
        starts,
        np.empty(pairs, dtype),
        np.zeros(pairs, np.int32),
        np.zeros(pairs, np.int32),
        np.minimum(positives, np.maximum(reach, 1)),
    )


@dataclass(frozen=True)
class TieGroups:
    """Groups of tied rows in the ranked lists of some queries; flat, nearest first.

    A group of `rows` gallery rows, `positives` of them positives of the query, follows `before` rows, `hits` of them
    positives. `count[q]` is the number of all positives of query q (R). Groups beyond the reach are omitted.
    """

    query: Array
    before: Array
    rows: Array
    positives: Array
    hits: Array
    count: Array
    gallery: int

    @cached_property
    def nearest(self) -> Array:
        """Positions of the nearest group of each query."""
        return np.flatnonzero(self.hits == 0)


def tie_groups(counts: Counts, gallery: int, *, ties: str) -> Iterator[tuple[slice, TieGroups]]:
    """Yield blocks of queries with their groups: (queries of the counts, groups)."""
    for top, bottom in ranges(counts.starts, _PAIRS):
        yield slice(top, bottom), _groups(counts, top, bottom, gallery, ties)


def ranges(sums: Array, most: float, *, items: int = EVERYWHERE) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of at least one item, with at most `items` items and a sum of at most `most`.

    sums: running sums of the items, from 0.
    """
    begin = 0
    while begin < len(sums) - 1:
        fitting = int(np.searchsorted(sums, sums[begin] + most, "right")) - 1
        end = max(min(begin + items, fitting), begin + 1)
        yield begin, end
        begin = end


def _groups(counts: Counts, top: int, bottom: int, gallery: int, ties: str) -> TieGroups:
    starts = counts.starts[top : bottom + 1] - counts.starts[top]
    part = slice(counts.starts[top], counts.starts[bottom])
    count = np.diff(starts)
    line = np.repeat(np.arange(bottom - top), count)
    hits = np.arange(len(line)) - starts[line]
    near = counts.near[part]
    new = hits == 0
    new[1:] |= near[1:] != near[:-1]
    head = np.flatnonzero(new)
    positives = np.diff(np.append(head, len(line)))
    kept = hits[head] < counts.active[top:bottom][line[head]]
    if not kept.all():
        head, positives = head[kept], positives[kept]
    hits, level = hits[head], counts.level[part][head].astype(np.int64)
    before = hits + counts.above[part][head]
    if ties == "pessimistic":
        before += level
    rows = positives + level if ties == "expected" else positives
    return TieGroups(line[head], before, rows, positives, hits, count, gallery)
