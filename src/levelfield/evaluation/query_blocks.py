"""Search in less memory than the embeddings need: blocks of queries, each in the whole gallery, read in parts.

Any process can search a block. The values do not depend on the division: entries of products in whole tiles are the
same everywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from levelfield.errors import BadSpecification
from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.metrics.registry import Metric, parse
from levelfield.evaluation.metrics.retrieval import metric_values, reach
from levelfield.evaluation.search.arrangement import Arrangement, Counts, empty_counts
from levelfield.evaluation.search.distances import Change, Selection, change_for
from levelfield.evaluation.search.memory import Division, divide
from levelfield.evaluation.search.order import class_order
from levelfield.evaluation.search.products import in_tiles
from levelfield.evaluation.search.ranking import best_search
from levelfield.evaluation.search.threads import share
from levelfield.progress import SILENT_STAGE, Stage
from levelfield.trust import as_trusted, trusted

NOWHERE = -(2**62)  # position of a query that is not in the gallery


@dataclass(frozen=True)
class Job:
    """What all blocks of a search share. Rows are arrays, or `FileRows` that each process opens itself.

    at_once: gallery rows in memory at a time. trusted: files that may run, for metrics such as `my_metrics.py:mine`;
    None: nothing is restricted.
    """

    inputs: Inputs
    change: Change
    metrics: tuple[str, ...]
    ties: str
    at_once: int
    trusted: tuple[str, ...] | None = None

    def compared(self, rows: Array) -> Array:
        """Rows as they are compared, in whole tiles."""
        return Selection(rows, None, in_tiles(len(rows))).change(self.change, self.change.dtype)

    def arrange(self, query: Array, chosen: Array, first: Array, last: Array, itself: Array) -> Arrangement:
        """Compared queries and the chosen gallery rows."""
        gallery = self.compared(self.inputs.gallery[chosen])
        orders = np.arange(len(first)), np.arange(len(chosen))
        return Arrangement(query, gallery, self.change.offset(gallery), *orders, first, last, itself, symmetric=False)


@dataclass(frozen=True)
class Shards:
    """`map(job, blocks)` yields `block_values(job, block)` of each block in order, from `workers` at a time.

    >>> Shards(map=lambda job, blocks: (block_values(job, block) for block in blocks)).workers
    1
    """

    map: Callable[[Job, Sequence[Array]], Iterator[Array]]
    workers: int = 1
    threads: int | None = None  # of each worker; None: those of this process


def search_in_blocks(
    inputs: Inputs,
    metrics: list[Metric],
    *,
    ties: str,
    distance: str,
    memory: str | int,
    shards: Shards | None,
    stage: Stage,
) -> tuple[dict[str, Array], Division]:
    """Values of each query in input order, and how the search was divided. shards: None for this process."""
    if best_search(inputs) != "blocked":
        raise BadSpecification(
            "A search in blocks needs a CPU, numba, and a matrix library whose results do not depend on the size of a "
            "product. Evaluate in this process with a larger memory limit instead (--memory, without --jobs and --ray)."
        )
    gallery = Selection(inputs.gallery, class_order(inputs.gallery, inputs.gallery_codes))
    query = gallery if inputs.self_search else Selection(inputs.query)
    workers = 1 if shards is None else shards.workers
    threads = (shards and shards.threads) or torch.get_num_threads()
    division = divide(memory, inputs, metrics=len(metrics), workers=workers, threads=threads)
    change, names = change_for(query, gallery, distance=distance), tuple(metric.name for metric in metrics)
    job = Job(inputs, change, names, ties, division.gallery, trusted())
    result = np.zeros((len(metrics), len(inputs.query)))
    blocks = list(query_blocks(inputs, division))
    if shards is None:
        for rows in blocks:
            result[:, rows] = block_values(job, rows, stage)
    else:
        for rows, values in zip(blocks, shards.map(job, blocks), strict=True):
            result[:, rows] = values
            stage.advance(len(rows) * len(inputs.gallery))
    return dict(zip(names, result, strict=True)), division


def query_blocks(inputs: Inputs, division: Division) -> Iterator[Array]:
    """Positions of all queries, sorted by class, in blocks that keep the limits; at least one query in each."""
    order = np.argsort(inputs.query_codes, kind="stable")
    ends = np.append(0, np.cumsum(inputs.positives[order]))
    begin = 0
    while begin < len(order):
        fitting = int(np.searchsorted(ends, ends[begin] + division.pairs, "right")) - 1
        end = max(min(begin + division.queries, fitting), begin + 1)
        yield order[begin:end]
        begin = end


def block_values(job: Job, rows: Array, stage: Stage = SILENT_STAGE) -> Array:
    """`[metrics, queries]`: the values of the queries at positions `rows`, searched in the whole gallery."""
    with as_trusted(job.trusted):
        metrics = [parse(name) for name in job.metrics]
    counts = _count(job, rows, reach(metrics, job.inputs.positives[rows]), stage)
    return metric_values(metrics, counts, len(job.inputs.gallery), ties=job.ties)


def _count(job: Job, rows: Array, last_rank: Array, stage: Stage) -> Counts:
    """Counts of the queries at positions `rows`: first the similarities to positives, then all rows."""
    from levelfield.evaluation.search import blocked_kernels  # import numba only if it is used
    from levelfield.evaluation.search.blocked import LINES, BlockSearch, Size, blocks

    inputs, threads, size = job.inputs, torch.get_num_threads(), Size()
    query, count, gallery = job.compared(inputs.query[rows]), len(rows), len(inputs.gallery)
    counts = empty_counts(inputs.positives[rows], last_rank, query.dtype)
    wanted = np.zeros(len(inputs.classes), bool)
    wanted[inputs.query_codes[rows]] = True
    candidates, *positions = _sorted_by_class(inputs, rows, np.flatnonzero(wanted[inputs.gallery_codes]))
    for low in range(0, len(candidates), job.at_once):
        part = candidates[low : low + job.at_once]
        search = BlockSearch(job.arrange(query, part, *(one - low for one in positions)), last_rank, counts, size)
        deque(share(range(0, count, LINES), search.gather, threads), maxlen=0)
    if len(candidates):
        deque(share(range(0, count, LINES), search.sort, threads), maxlen=0)
    for low in range(0, gallery, job.at_once):
        part = np.arange(low, min(low + job.at_once, gallery))
        arranged = job.arrange(query, *_sorted_by_class(inputs, rows, part))
        search = BlockSearch(arranged, last_rank, counts, size)
        deque(share(blocks(arranged, 0, count, size), search.count, threads), maxlen=0)
        stage.advance(count * len(part))
    blocked_kernels.sum_steps(counts.starts, counts.active, counts.above, counts.level)
    return counts


def _sorted_by_class(inputs: Inputs, rows: Array, chosen: Array) -> tuple[Array, Array, Array, Array]:
    """Ascending gallery positions sorted by class, and for each query the range of its class and the query itself."""
    codes = inputs.gallery_codes[chosen]
    order = np.argsort(codes, kind="stable")
    first, last = (np.searchsorted(codes[order], inputs.query_codes[rows], side) for side in ("left", "right"))
    ids = inputs.query_ids[rows]
    at = np.minimum(np.searchsorted(chosen, ids), max(len(chosen) - 1, 0))
    moved = np.empty_like(order)
    moved[order] = np.arange(len(order))
    itself = np.where(chosen[at] == ids, moved[at], NOWHERE) if len(chosen) else np.full(len(ids), NOWHERE)
    return chosen[order], first, last, itself
