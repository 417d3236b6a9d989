"""Share work among threads; with one thread, work in the calling thread."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import torch

from levelfield.distributed.processes import cores

Task = TypeVar("Task")
_AHEAD = 4  # tasks of each thread that are submitted before the first one is needed


@contextmanager
def torch_threads(count: int | None = None) -> Iterator[None]:
    """Run with this number of torch threads: 1 where rounding depends on it. None: one for each core that this process
    may use, or as many as OMP_NUM_THREADS allows, whatever number training has set."""
    before = torch.get_num_threads()
    limit = os.environ.get("OMP_NUM_THREADS", "")
    torch.set_num_threads(count or (int(limit) if limit.isdecimal() and int(limit) else cores()))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def share(tasks: Iterable[Task], do: Callable[[Task], object], threads: int) -> Iterator[Task]:
    """Yield each task, in order, when it is done.

    >>> list(share([3, 1, 2], lambda task: None, threads=2))
    [3, 1, 2]
    """
    if threads == 1:
        for task in tasks:
            do(task)
            yield task
        return
    # each thread uses one core. `set_num_threads` in a thread is also the default of threads started later: set it back
    one_core = partial(torch.set_num_threads, 1)
    with torch_threads(torch.get_num_threads()), ThreadPoolExecutor(threads, "levelfield", one_core) as pool:
        running: deque[Future[Task]] = deque()
        try:
            for task in tasks:
                running.append(pool.submit(_done, task, do))
                if len(running) > _AHEAD * threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _done(task: Task, do: Callable[[Task], object]) -> Task:
    do(task)
    return task
