"""Blocks of queries: each is searched in the whole gallery on its own, in any process, with the same result.

The gallery is read in parts, so that no copy of the rows is needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.metrics.registry import parse
from levelfield.evaluation.metrics.retrieval import metric_values, reach
from levelfield.evaluation.search.arrangement import Arrangement, Counts, empty_counts
from levelfield.evaluation.search.distances import Change, Selection
from levelfield.evaluation.search.memory import Division
from levelfield.evaluation.search.order import class_order
from levelfield.evaluation.search.products import in_tiles
from levelfield.evaluation.search.threads import share
from levelfield.progress import SILENT_STAGE, Stage
from levelfield.trust import as_trusted

NOWHERE = -(2**62)  # position of a query that is not in the gallery


@dataclass(frozen=True)
class QueryBlock:
    """Some queries, and the gallery rows of their classes, sorted by class.

    The positives of query i are `candidates[first[i]:last[i]]` without `candidates[itself[i]]`, the query itself. `ids`
    are the gallery rows of the queries themselves (-1: none).
    """

    rows: Array
    codes: Array
    ids: Array
    candidates: Array
    first: Array
    last: Array
    itself: Array

    @property
    def positives(self) -> Array:
        """Number of positives of each query (R)."""
        return self.last - self.first - ((self.itself >= self.first) & (self.itself < self.last))


@dataclass(frozen=True)
class SortedInputs:
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
    def positives(self) -> Array:
        """Number of positives of each query, in the order of `query_order`."""
        return self.inputs.positives[self.query_order]

    def blocks(self, division: Division) -> Iterator[QueryBlock]:
        """All queries, in blocks that keep the limits; at least one query in each."""
        inputs, ends = self.inputs, np.cumsum(self.positives)
        sizes = np.bincount(inputs.gallery_codes, minlength=len(inputs.classes))
        starts = np.cumsum(sizes) - sizes  # of the classes in the gallery's order
        positions = np.full(len(self.gallery_order) + 1, NOWHERE)  # the last entry is for id -1
        positions[self.gallery_order] = np.arange(len(self.gallery_order))
        begin, count = 0, len(ends)
        while begin < count:
            before = ends[begin - 1] if begin else 0
            end = min(begin + division.queries, int(np.searchsorted(ends, before + division.pairs, "right")), count)
            end = max(end, begin + 1)
            rows = self.query_order[begin:end]
            codes, ids = inputs.query_codes[rows], inputs.query_ids[rows]
            present, which = np.unique(codes, return_inverse=True)  # a sample misses classes between its own
            here = sizes[present]
            last = np.cumsum(here)
            moved = last - here - starts[present]  # from a position in the gallery's order to one among the candidates
            candidates = self.gallery_order[np.arange(last[-1]) - np.repeat(moved, here)]
            itself = positions[ids] + moved[which]
            yield QueryBlock(rows, codes, ids, candidates, (last - here)[which], last[which], itself)
            begin = end


@dataclass(frozen=True)
class Job:
    """What all blocks of a search share. Rows are arrays, or `FileRows` that each process opens itself.

    at_once: gallery rows in memory at a time. trusted: files that may run, for metrics such as `my_metrics.py:mine`;
    None: nothing is restricted.
    """

    query: Array
    gallery: Array
    codes: Array
    change: Change
    metrics: tuple[str, ...]
    ties: str
    at_once: int
    trusted: tuple[str, ...] | None = None

    def compared(self, rows: Array) -> Array:
        """Rows as they are compared, in whole tiles."""
        return Selection(rows, None, in_tiles(len(rows))).change(self.change, self.change.dtype)

    def arrange(self, query: Array, rows: Array, first: Array, last: Array, itself: Array) -> Arrangement:
        gallery = self.compared(rows)
        orders = np.arange(len(first)), np.arange(len(rows))
        return Arrangement(query, gallery, self.change.offset(gallery), *orders, first, last, itself, symmetric=False)


def block_values(job: Job, block: QueryBlock, stage: Stage = SILENT_STAGE) -> Array:
    """`[metrics, queries]`: the values of a block of queries, searched in the whole gallery."""
    with as_trusted(job.trusted):
        metrics = [parse(name) for name in job.metrics]
    counts = _count(job, block, reach(metrics, block.positives), stage)
    return metric_values(metrics, counts, len(job.gallery), ties=job.ties)


def _count(job: Job, block: QueryBlock, last_rank: Array, stage: Stage) -> Counts:
    """Counts of all queries of the block: first the similarities to positives, then all rows."""
    from levelfield.evaluation.search import blocked_kernels  # import numba only if it is used
    from levelfield.evaluation.search.blocked import LINES, BlockSearch, Size, blocks

    threads, size, count = torch.get_num_threads(), Size(), len(block.rows)
    query = job.compared(job.query[block.rows])
    counts = empty_counts(block.positives, last_rank, query.dtype)
    for low in range(0, len(block.candidates), job.at_once):
        rows = job.gallery[block.candidates[low : low + job.at_once]]
        arranged = job.arrange(query, rows, block.first - low, block.last - low, block.itself - low)
        search = BlockSearch(arranged, last_rank, counts, size)
        deque(share(range(0, count, LINES), search.gather, threads), maxlen=0)
    if len(block.candidates):
        deque(share(range(0, count, LINES), search.sort, threads), maxlen=0)
    for arranged in _gallery_parts(job, block, query):
        search = BlockSearch(arranged, last_rank, counts, size)
        deque(share(blocks(arranged, 0, count, size), search.count, threads), maxlen=0)
        stage.advance(count * len(arranged.gallery_order))
    blocked_kernels.sum_steps(counts.starts, counts.active, counts.above, counts.level)
    return counts


def _gallery_parts(job: Job, block: QueryBlock, query: Array) -> Iterator[Arrangement]:
    """The gallery, some rows at a time, sorted by class within the part."""
    for begin in range(0, len(job.gallery), job.at_once):
        codes = job.codes[begin : begin + job.at_once]
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        inside = (block.ids >= begin) & (block.ids < begin + len(order))
        positions = np.empty_like(order)
        positions[order] = np.arange(len(order))
        itself = np.where(inside, positions[np.where(inside, block.ids - begin, 0)], -1)
        first, last = (np.searchsorted(codes, block.codes, side) for side in ("left", "right"))
        yield job.arrange(query, job.gallery[begin : begin + job.at_once][order], first, last, itself)
