"""The number of worker processes that decode images for this one. It can change no bit."""

from __future__ import annotations

import multiprocessing
import sys
from contextlib import AbstractContextManager
from contextvars import ContextVar

from levelfield.contexts import holding
from levelfield.distributed.processes import cores

TINY = 128  # images: fewer are decoded by this process, in the time that workers need to start
_MAX_WORKERS = 16
_chosen: ContextVar[int | None] = ContextVar("decoders", default=None)


def decoders(images: int) -> int:
    """Workers that decode `images` images; none for a few, or where a process cannot simply start others."""
    cannot = multiprocessing.current_process().daemon or (_chosen.get() is None and sys.platform != "linux")
    return 0 if images < TINY or cannot else decoders_per_job(1)


def decoders_per_job(jobs: int) -> int:
    """Workers of each of `jobs` processes: as many as chosen, else the cores that the jobs leave, at least one."""
    chosen = _chosen.get()
    return min(max(cores() // jobs - 1, 1), _MAX_WORKERS) if chosen is None else chosen


def decoding(workers: int | None) -> AbstractContextManager[None]:
    """Use this number of workers; None changes nothing."""
    return holding(_chosen, _chosen.get() if workers is None else workers)
