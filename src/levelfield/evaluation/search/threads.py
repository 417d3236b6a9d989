"""Share work among threads; with one thread, work in the calling thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TypeVar

import torch

from levelfield.distributed.processes import cores

Task = TypeVar("Task")


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
    """Yield each task when it is done; with several threads, in no fixed order.

    >>> sorted(share([3, 1, 2], lambda task: None, threads=2))
    [1, 2, 3]
    """
    if threads == 1:
        for task in tasks:
            do(task)
            yield task
        return
    remaining, lock, stop = iter(tasks), threading.Lock(), threading.Event()
    done: SimpleQueue[Task | None] = SimpleQueue()  # None: a thread has finished

    def work() -> None:
        torch.set_num_threads(1)  # in this thread: the cores are already in use
        try:
            while not stop.is_set():
                with lock:
                    task = next(remaining, None)
                if task is None:
                    return
                do(task)
                done.put(task)
        finally:
            done.put(None)

    # `set_num_threads` in a thread is also the default of threads started later, so it is set back
    with torch_threads(torch.get_num_threads()), ThreadPoolExecutor(threads, thread_name_prefix="levelfield") as pool:
        running = [pool.submit(work) for _ in range(threads)]
        ended = 0
        try:
            while ended < threads:
                finished = done.get()
                if finished is None:
                    ended += 1
                else:
                    yield finished
        finally:
            stop.set()
        for thread in running:
            thread.result()  # raises the thread's error
