"""Who searches the blocks of queries: this process, worker processes or Ray. The results are the same bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import torch

from levelfield.distributed import processes
from levelfield.distributed.ray_connection import LOCAL, connected
from levelfield.errors import BadSpecification, LevelfieldError, RunFailed
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.query_blocks import Job, Shards, block_values

MODULES = ("levelfield.evaluation.query_blocks", "levelfield.evaluation.search.blocked")  # of every block


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

        def ask(block: Array) -> Array:
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
                yield from waiting.map(ask, blocks)
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
    with connected(address or LOCAL, modules=MODULES) as ray:
        resources: dict[str, float] = ray.cluster_resources()

        def run(job: Job, blocks: Sequence[Array]) -> Iterator[Array]:
            shared, task = ray.put(job), ray.remote(num_cpus=1)(_on_one_core)
            yield from map(ray.get, [task.remote(shared, block) for block in blocks])

        yield Shards(run, max(int(resources.get("CPU", 1)), 1), threads=1)


def _on_one_core(job: Job, block: Array) -> Array:
    torch.set_num_threads(1)
    return block_values(job, block)
