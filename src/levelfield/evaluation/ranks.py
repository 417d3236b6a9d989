"""Ranks without neighbour lists: for each relative of a query, how many others are nearer and how many are level.

Memory: one block of queries against the gallery, whatever the number of queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from levelfield.errors import unknown
from levelfield.evaluation.distances import Prepared
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.order import canonical_order, first_twins
from levelfield.evaluation.products import TILE, product, tiled

TIES = ("expected", "pessimistic", "optimistic")
_BLOCK_ENTRIES = 2**23


@dataclass(frozen=True)
class TieGroups:
    """Rows of the ranked lists that are level with each other, for a block of queries; flat, nearest first.

    A group of `rows` gallery rows, `relatives` of them relatives of the query, comes after `before` rows of which
    `hits` are relatives. `count[q]` is the number of all relatives of query q of the block (R).
    """

    query: Array
    before: Array
    rows: Array
    relatives: Array
    hits: Array
    count: Array
    gallery: int


def tie_groups(
    prepared: Prepared, query_codes: Array, gallery_codes: Array, query_ids: Array, *, ties: str,
    block: int | None = None,
) -> Iterator[tuple[Array, TieGroups]]:
    """Blocks of queries with their tie groups: (positions of the queries, groups).

    Works in the canonical order of rows, in blocks whose size depends on the gallery's size alone, or of `block` rows.
    """
    if ties not in TIES:
        raise unknown("way to treat ties", ties, TIES)
    columns = canonical_order(prepared.gallery, gallery_codes)
    gallery = tiled(prepared.gallery, columns)  # once, not for every block
    offset = None if prepared.offset is None else prepared.offset[columns]
    twins = first_twins(gallery[: len(columns)])
    copies = np.flatnonzero(twins != np.arange(len(twins)))
    members = _Members(gallery_codes[columns], int(max(query_codes.max(), gallery_codes.max())) + 1)
    place = np.full(len(columns) + 1, -1)  # the last entry answers for id -1: no place
    place[columns] = np.arange(len(columns))
    order = canonical_order(prepared.query, query_codes)
    size = block or min(max(_BLOCK_ENTRIES // len(columns) // TILE, 1), 8) * TILE
    for start in range(0, len(order), size):
        positions = order[start : start + size]
        values = np.ascontiguousarray(product(prepared.query, gallery, rows=positions)[:, : len(columns)])
        if offset is not None:
            values -= offset
        # Rows with the same bits are level for every query, whatever the product's rounding says.
        values[:, copies] = values[:, twins[copies]]
        yield positions, _block_groups(values, *members.of(query_codes[positions]), place[query_ids[positions]], ties)


class _Members:
    """The gallery columns of each class."""

    def __init__(self, codes: Array, classes: int) -> None:
        self.columns = np.argsort(codes, kind="stable")
        self.counts = np.bincount(codes, minlength=classes)
        self.starts = np.cumsum(self.counts) - self.counts

    def of(self, codes: Array) -> tuple[Array, Array]:
        """`[queries, largest class]` columns, and which of them are real (the rest is padding)."""
        steps = np.arange(self.counts[codes].max())
        real = steps < self.counts[codes][:, None]
        places = np.where(real, self.starts[codes][:, None] + steps, 0)
        return self.columns[places], real


def _block_groups(similarity: Array, columns: Array, real: Array, own: Array, ties: str) -> TieGroups:
    """Consumes `similarity`: relatives and the query itself leave the list, the others are sorted and searched."""
    lines = np.arange(len(similarity))
    real = real & (columns != own[:, None])
    near = np.where(real, np.take_along_axis(similarity, columns, axis=1), -np.inf).astype(similarity.dtype)
    near = -np.sort(-near, axis=1)
    row, slot = np.nonzero(real)
    similarity[row, columns[row, slot]] = -np.inf
    present = own >= 0
    similarity[lines[present], own[present]] = -np.inf
    similarity.sort(axis=1)
    others, wanted = torch.from_numpy(similarity), torch.from_numpy(near)
    below = torch.searchsorted(others, wanted).numpy()
    not_above = torch.searchsorted(others, wanted, right=True).numpy()

    count = real.sum(axis=1)
    new = np.arange(near.shape[1]) < count[:, None]
    new[:, 1:] &= near[:, 1:] != near[:, :-1]
    query, hits = np.nonzero(new)
    last = np.append(query[1:] != query[:-1], True)[: len(query)]
    relatives = np.where(last, count[query], np.append(hits[1:], 0)[: len(query)]) - hits
    level = (not_above - below)[query, hits]
    before = hits + similarity.shape[1] - not_above[query, hits]
    if ties == "pessimistic":
        before = before + level
    rows = relatives + level if ties == "expected" else relatives
    return TieGroups(query, before, rows, relatives, hits, count, similarity.shape[1])
