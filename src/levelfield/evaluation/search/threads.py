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
def one_thread() -> Iterator[None]:
    """Run with one torch thread, for operations whose rounding depends on the number of threads.

    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def all_cores() -> Iterator[None]:
    """Run with as many torch threads as this process may use cores, or as many as OMP_NUM_THREADS allows.

    Training sets the number of threads of its process, which later work need not share.

    >>> with all_cores():
    ...     torch.get_num_threads() >= 1
    True
    """
    before = torch.get_num_threads()
    limit = os.environ.get("OMP_NUM_THREADS", "")
    torch.set_num_threads(int(limit) if limit.isdecimal() and int(limit) else cores())
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

    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, thread_name_prefix="levelfield") as pool:
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
    finally:
        torch.set_num_threads(before)  # default of threads started later
