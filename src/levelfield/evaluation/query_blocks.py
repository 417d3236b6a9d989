"""Search in less memory than the embeddings need: blocks of queries, each in the whole gallery, read in parts.

This process, worker processes or Ray search the blocks. The values do not depend on the division: entries of products
in whole tiles are the same everywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch

from levelfield.distributed import processes
from levelfield.distributed.ray_connection import LOCAL, connected
from levelfield.errors import BadSpecification, LevelfieldError, RunFailed
from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.metrics.registry import Metric, parse
from levelfield.evaluation.metrics.retrieval import metric_values, reach
from levelfield.evaluation.search.arrangement import Arrangement, Counts, empty_counts, ranges
from levelfield.evaluation.search.distances import Change, Selection
from levelfield.evaluation.search.order import class_order
from levelfield.evaluation.search.products import in_tiles
from levelfield.evaluation.search.ranking import Division, best_search, divide
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
        return self.change.rows(Selection(rows, None, in_tiles(len(rows))))

    def arrange(self, query: Array, rows: Array, first: Array, last: Array, itself: Array) -> Arrangement:
        """Compared queries and the gallery rows at positions `rows`."""
        gallery = self.compared(self.inputs.gallery[rows])
        orders = np.arange(len(first)), np.arange(len(rows))
        return Arrangement(query, gallery, self.change.offset(gallery), *orders, first, last, itself, symmetric=False)

    def sorted_by_class(self, queries: Array, rows: Array) -> tuple[Array, Array, Array, Array]:
        """Ascending gallery positions sorted by class, and for each query its class and itself."""
        inputs = self.inputs
        codes, ids = inputs.gallery_codes[rows], inputs.query_ids[queries]
        order = np.argsort(codes, kind="stable")
        first, last = (np.searchsorted(codes[order], inputs.query_codes[queries], side) for side in ("left", "right"))
        if not len(rows):
            return rows, first, last, np.full(len(ids), NOWHERE)
        near = np.minimum(np.searchsorted(rows, ids), len(rows) - 1)
        return rows[order], first, last, np.where(rows[near] == ids, np.argsort(order)[near], NOWHERE)


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
    names = tuple(metric.name for metric in metrics)
    job = Job(inputs, Change.of(query, gallery, distance=distance), names, ties, division.gallery, trusted())
    result = np.zeros((len(metrics), len(inputs.query)))
    order = np.argsort(inputs.query_codes, kind="stable")
    pairs = np.append(0, np.cumsum(inputs.positives[order]))
    blocks = [order[begin:end] for begin, end in ranges(pairs, division.pairs, items=division.queries)]
    if shards is None:
        for rows in blocks:
            result[:, rows] = block_values(job, rows, stage)
    else:
        for rows, values in zip(blocks, shards.map(job, blocks), strict=True):
            result[:, rows] = values
            stage.advance(len(rows) * len(inputs.gallery))
    return dict(zip(names, result, strict=True)), division


def block_values(job: Job, queries: Array, stage: Stage = SILENT_STAGE) -> Array:
    """`[metrics, queries]`: the values of the queries at these positions, searched in the whole gallery."""
    with as_trusted(job.trusted):
        metrics = [parse(name) for name in job.metrics]
    counts = _count(job, queries, reach(metrics, job.inputs.positives[queries]), stage)
    return metric_values(metrics, counts, len(job.inputs.gallery), ties=job.ties)


def _count(job: Job, queries: Array, last_rank: Array, stage: Stage) -> Counts:
    """Counts of some queries: first the similarities to positives, then all rows."""
    from levelfield.evaluation.search import blocked_kernels  # import numba only if it is used
    from levelfield.evaluation.search.blocked import LINES, BlockSearch, blocks, sort

    inputs, threads, count = job.inputs, torch.get_num_threads(), len(queries)
    query, gallery = job.compared(inputs.query[queries]), len(inputs.gallery)
    counts = empty_counts(inputs.positives[queries], last_rank, query.dtype)
    wanted = np.zeros(len(inputs.classes), bool)
    wanted[inputs.query_codes[queries]] = True
    candidates, *positions = job.sorted_by_class(queries, np.flatnonzero(wanted[inputs.gallery_codes]))
    for low in range(0, len(candidates), job.at_once):
        arranged = job.arrange(query, candidates[low : low + job.at_once], *(each - low for each in positions))
        search = BlockSearch(arranged, last_rank, counts)
        deque(share(range(0, count, LINES), search.gather, threads), maxlen=0)
    sort(counts, threads)
    for low in range(0, gallery, job.at_once):
        part = np.arange(low, min(low + job.at_once, gallery))
        arranged = job.arrange(query, *job.sorted_by_class(queries, part))
        search = BlockSearch(arranged, last_rank, counts)
        deque(share(blocks(arranged, 0, count), search.count, threads), maxlen=0)
        stage.advance(count * len(part))
    blocked_kernels.sum_steps(counts.starts, counts.active, counts.above, counts.level)
    return counts


def in_processes(workers: int) -> Shards:
    """Shards searched by worker processes, which share the threads of this process.

    >>> in_processes(2).workers
    2
    """
    if workers < 1:
        raise BadSpecification(f"jobs={workers}: the number of processes must be at least 1.")
    threads = max(torch.get_num_threads() // workers, 1)
    processes.warm_up()  # in parallel with the preparation of the search

    def run(job: Job, blocks: Sequence[Array]) -> Iterator[Array]:
        started = [processes.start(_serve, job, threads) for _ in range(workers)]
        free: SimpleQueue[tuple[Any, Connection]] = SimpleQueue()
        for worker in started:
            free.put(worker)

        def search(block: Array) -> Array:
            process, pipe = worker = free.get()
            try:
                pipe.send(block)
                result: Array | LevelfieldError = pipe.recv()
            except (EOFError, OSError) as error:
                process.join(processes.PATIENCE)
                why = processes.end_of(process.exitcode)
                raise RunFailed(f"A worker of the evaluation failed: {why}. Use fewer --jobs.") from error
            finally:
                free.put(worker)
            if isinstance(result, LevelfieldError):
                raise result
            return result

        with ThreadPoolExecutor(workers) as waiting:  # a thread for each process
            try:
                yield from waiting.map(search, blocks)
            finally:
                processes.stop(process for process, _ in started)

    return Shards(run, workers, threads)


def _serve(pipe: Connection, job: Job, threads: int) -> None:
    """Search the blocks that arrive, until the pipe is closed."""
    torch.set_num_threads(threads)
    with suppress(EOFError):
        while True:
            block = pipe.recv()
            try:
                pipe.send(block_values(job, block))
            except LevelfieldError as error:
                pipe.send(error)
            except Exception as error:  # of a user's metric; its class may not exist in the other process
                pipe.send(RunFailed(f"A worker of the evaluation failed: {type(error).__name__}: {error}"))


@contextmanager
def on_ray(address: str | None = None) -> Iterator[Shards]:
    """Shards searched by Ray: a local one (None), or the cluster at an address. Each task has one core.

    Every node opens the embeddings by their path; labels are shared through Ray's object store.
    """
    with connected(address or LOCAL) as ray:
        resources: dict[str, float] = ray.cluster_resources()

        def run(job: Job, blocks: Sequence[Array]) -> Iterator[Array]:
            shared, task = ray.put(job), ray.remote(num_cpus=1)(_on_one_core)
            yield from map(ray.get, [task.remote(shared, block) for block in blocks])

        yield Shards(run, max(int(resources.get("CPU", 1)), 1), threads=1)


def _on_one_core(job: Job, block: Array) -> Array:
    torch.set_num_threads(1)
    return block_values(job, block)
