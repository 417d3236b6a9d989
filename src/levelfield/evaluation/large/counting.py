"""Metrics of one block of queries: a pure function of the block and of what all blocks share."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from levelfield.evaluation.inputs import Array
from levelfield.evaluation.large.blocks import QueryBlock
from levelfield.evaluation.metrics.registry import parse
from levelfield.evaluation.metrics.retrieval import reach
from levelfield.evaluation.search.arrangement import Arrangement
from levelfield.evaluation.search.distances import Change, Chosen
from levelfield.evaluation.search.products import in_tiles
from levelfield.evaluation.search.ranks import Counts, tie_groups
from levelfield.evaluation.search.threads import share
from levelfield.progress import SILENT_STAGE, Stage
from levelfield.trust import as_trusted


@dataclass(frozen=True)
class Job:
    """What all blocks of a search share. Rows are arrays, or `FileRows` that each process opens itself.

    trusted: files that may run, for metrics such as `my_metrics.py:mine`; None: nothing is restricted.
    """

    query: Array
    gallery: Array
    codes: Array
    change: Change
    metrics: tuple[str, ...]
    ties: str
    panel: int
    trusted: tuple[str, ...] | None = None


def measure(job: Job, block: QueryBlock, stage: Stage = SILENT_STAGE) -> Array:
    """`[metrics, queries]`: the values of a block of queries, searched in the whole gallery."""
    with as_trusted(job.trusted):
        wanted = [parse(name) for name in job.metrics]
    values = np.zeros((len(wanted), len(block.rows)))
    counts = _count(job, block, reach(wanted, block.positives), stage)
    for queries, groups in tie_groups(counts, len(job.gallery), ties=job.ties):
        for line, metric in enumerate(wanted):
            values[line, queries] = metric.compute(groups, k=metric.k, form=metric.form)
    return values


def _count(job: Job, block: QueryBlock, last: Array, stage: Stage) -> Counts:
    """Counts of all queries of the block: first the similarities to positives, then all rows in panels."""
    from levelfield.evaluation.search import cpu_kernels  # import numba only if it is used
    from levelfield.evaluation.search.cpu_blocks import LINES, BlockSearch, Size, blocks

    threads, size, count = torch.get_num_threads(), Size(), len(block.rows)
    query = _changed(job, job.query[block.rows])
    positives = block.positives
    starts = np.concatenate([[0], np.cumsum(positives)])
    near, above, level = (np.zeros(starts[-1], kind) for kind in (query.dtype, np.int32, np.int32))
    counts = Counts(0, count, starts, near, above, level, np.minimum(positives, np.maximum(last, 1)))
    search = None
    for low in range(0, len(block.found), job.panel):
        rows = job.gallery[block.found[low : low + job.panel]]
        places = (block.first - low, block.last - low, block.own - low)
        search = BlockSearch(_arranged(job, query, rows, *places), last, counts, size)
        deque(share(range(0, count, LINES), search.gather, threads), maxlen=0)
    if search is not None:
        deque(share(range(0, count, LINES), search.sort, threads), maxlen=0)
    for arranged in _panels(job, block, query):
        search = BlockSearch(arranged, last, counts, size)
        deque(share(blocks(arranged, 0, count, size), search.count, threads), maxlen=0)
        stage.advance(count * len(arranged.gallery_order))
    cpu_kernels.sum_steps(counts.starts, counts.active, counts.above, counts.level)
    return counts


def _panels(job: Job, block: QueryBlock, query: Array) -> Iterator[Arrangement]:
    """The gallery, some rows at a time, sorted by class within the panel."""
    for begin in range(0, len(job.gallery), job.panel):
        codes = job.codes[begin : begin + job.panel]
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        inside = (block.ids >= begin) & (block.ids < begin + len(order))
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        own = np.where(inside, place[np.where(inside, block.ids - begin, 0)], -1)
        first, last = (np.searchsorted(codes, block.codes, side) for side in ("left", "right"))
        yield _arranged(job, query, job.gallery[begin : begin + job.panel][order], first, last, own)


def _arranged(job: Job, query: Array, rows: Array, first: Array, last: Array, own: Array) -> Arrangement:
    gallery = _changed(job, rows)
    asked, found = np.arange(len(first)), np.arange(len(rows))
    return Arrangement(query, gallery, job.change.offset(gallery), asked, found, first, last, own, symmetric=False)


def _changed(job: Job, rows: Array) -> Array:
    """Rows as they are compared, in whole tiles."""
    return Chosen(rows, None, in_tiles(len(rows))).change(job.change, job.change.kind)
