"""Blocks of queries: each is searched on its own, in any process, with the same result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from levelfield.evaluation.extent import Division
from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.search.order import class_order

NOWHERE = -(2**62)  # position of a query that is not in the gallery


@dataclass(frozen=True)
class QueryBlock:
    """Some queries, and the gallery rows of their classes, sorted by class.

    The positives of query i are `found[first[i]:last[i]]` without `found[own[i]]`, which is the query itself. `ids` are
    the gallery rows of the queries themselves (-1: none).
    """

    rows: Array
    codes: Array
    ids: Array
    found: Array
    first: Array
    last: Array
    own: Array

    @property
    def positives(self) -> Array:
        """Number of positives of each query (R)."""
        return self.last - self.first - ((self.own >= self.first) & (self.own < self.last))


@dataclass(frozen=True)
class Sorted:
    """Queries and gallery in the order of their classes."""

    inputs: Inputs

    @cached_property
    def gallery_order(self) -> Array:
        return class_order(self.inputs.gallery, self.inputs.gallery_codes)

    @cached_property
    def query_order(self) -> Array:
        if self.inputs.self_search:
            return self.gallery_order
        return np.argsort(self.inputs.query_codes, kind="stable")

    @cached_property
    def _sizes(self) -> Array:
        """Number of gallery rows of each class."""
        return np.bincount(self.inputs.gallery_codes, minlength=len(self.inputs.classes))

    @cached_property
    def _starts(self) -> Array:
        """The first place of each class in the gallery's order."""
        return np.cumsum(self._sizes) - self._sizes

    @cached_property
    def positives(self) -> Array:
        """Number of positives of each query, in the order of `query_order`."""
        inputs, order = self.inputs, self.query_order
        ids, codes = inputs.query_ids[order], inputs.query_codes[order]
        itself = (ids >= 0) & (inputs.gallery_codes[ids] == codes)
        found: Array = self._sizes[codes] - itself
        return found

    @cached_property
    def _place(self) -> Array:
        """The place of each gallery row in the order; the last entry is for id -1."""
        place = np.full(len(self.gallery_order) + 1, NOWHERE)
        place[self.gallery_order] = np.arange(len(self.gallery_order))
        return place

    def blocks(self, division: Division) -> Iterator[QueryBlock]:
        """All queries, in blocks that keep the limits; at least one query in each."""
        inputs, ends = self.inputs, np.cumsum(self.positives)
        begin, count = 0, len(ends)
        while begin < count:
            before = ends[begin - 1] if begin else 0
            end = min(begin + division.queries, int(np.searchsorted(ends, before + division.pairs, "right")), count)
            end = max(end, begin + 1)
            rows = self.query_order[begin:end]
            codes, ids = inputs.query_codes[rows], inputs.query_ids[rows]
            present, which = np.unique(codes, return_inverse=True)  # a sample misses classes between its own
            sizes = self._sizes[present]
            ends_here = np.cumsum(sizes)
            moved = ends_here - sizes - self._starts[present]  # from a place in the gallery's order to one in `found`
            found = self.gallery_order[np.arange(ends_here[-1]) - np.repeat(moved, sizes)]
            last = ends_here[which]
            own = np.arange(begin, end) if inputs.self_search else self._place[ids]
            yield QueryBlock(rows, codes, ids, found, last - sizes[which], last, own + moved[which])
            begin = end
