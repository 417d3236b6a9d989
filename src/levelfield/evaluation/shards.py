"""Who searches the blocks of queries: this process, worker processes or Ray. The results are the same bits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from levelfield.distributed import processes
from levelfield.distributed.ray_connection import LOCAL, connected
from levelfield.errors import BadSpecification, LevelfieldError, RunFailed
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.query_blocks import Job, QueryBlock, block_values

MODULES = ("levelfield.evaluation.query_blocks", "levelfield.evaluation.search.blocked")  # of every block
Map = Callable[[Job, Iterable[QueryBlock]], Iterator[Array]]


@dataclass(frozen=True)
class Shards:
    """`map(job, blocks)` yields `block_values(job, block)` of each block in order, from `workers` at a time.

    >>> Shards(map=lambda job, blocks: (block_values(job, block) for block in blocks)).workers
    1
    """

    map: Map
    workers: int = 1
    threads: int | None = None  # of each worker; None: those of this process


def in_processes(workers: int) -> Shards:
    """Shards searched by worker processes, which share the threads of this process.

    >>> in_processes(2).workers
    2
    """
    if workers < 1:
        raise BadSpecification(f"jobs={workers}: the number of processes must be at least 1.")
    threads = max(torch.get_num_threads() // workers, 1)
    processes.warm_up()  # in parallel with the preparation of the search

    def run(job: Job, blocks: Iterable[QueryBlock]) -> Iterator[Array]:
        started = [processes.start(_serve, job, threads) for _ in range(workers)]
        try:
            yield from _in_order({pipe: process for process, pipe in started}, iter(blocks))
        finally:
            for _, pipe in started:
                pipe.close()
            processes.stop(process for process, _ in started)

    return Shards(run, workers, threads)


def _in_order(pipes: dict[Connection, Any], blocks: Iterator[QueryBlock]) -> Iterator[Array]:
    """Send each block to a free process; yield the results in the order of the blocks."""
    done: dict[int, Array] = {}
    busy: dict[Connection, int] = {}
    sent = next_one = 0
    free = list(pipes)
    while True:
        while free and (block := next(blocks, None)) is not None:
            pipe = free.pop()
            busy[pipe] = sent
            pipe.send(block)
            sent += 1
        if not busy:
            return
        for pipe in (one for one in wait(list(busy)) if isinstance(one, Connection)):
            try:
                result = pipe.recv()
            except (EOFError, OSError) as error:
                pipes[pipe].join(processes.PATIENCE)
                why = processes.end_of(pipes[pipe].exitcode)
                raise RunFailed(f"A worker of the evaluation failed: {why}. Use fewer --jobs.") from error
            if isinstance(result, LevelfieldError):
                raise result
            done[busy.pop(pipe)] = result
            free.append(pipe)
        while next_one in done:
            yield done.pop(next_one)
            next_one += 1


def _serve(pipe: Connection, job: Job, threads: int) -> None:
    """Search the blocks that arrive, until the pipe is closed."""
    torch.set_num_threads(threads)
    while True:
        try:
            block = pipe.recv()
        except EOFError:
            return
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
    with connected(address or LOCAL, modules=MODULES) as ray:
        resources: dict[str, float] = ray.cluster_resources()
        workers = max(int(resources.get("CPU", 1)), 1)

        def run(job: Job, blocks: Iterable[QueryBlock]) -> Iterator[Array]:
            shared, task = ray.put(job), ray.remote(num_cpus=1)(_on_one_core)
            waiting: deque[Any] = deque()
            for block in blocks:
                waiting.append(task.remote(shared, block))
                if len(waiting) > 2 * workers:
                    yield ray.get(waiting.popleft())
            while waiting:
                yield ray.get(waiting.popleft())

        yield Shards(run, workers, threads=1)


def _on_one_core(job: Job, block: QueryBlock) -> Array:
    torch.set_num_threads(1)
    return block_values(job, block)
