"""Worker processes: started clean, and ended together with their parent.

A process is forked from a server that has imported levelfield and done nothing else (where the system supports it), so
that it starts in milliseconds instead of the seconds that importing torch takes. It never imports from the working
directory and never runs the calling script: its inputs are passed to it.
"""

from __future__ import annotations

import functools
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any

PRELOADED = ["levelfield.studies.execution.workers", "scipy.linalg"]
PATIENCE = 2.0  # seconds a process has to exit by itself
_SAFE_PATH = "PYTHONSAFEPATH"


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def torchrun_rank() -> tuple[int, int]:
    """Rank of this process and number of processes that torchrun started; (0, 1) without torchrun.

    >>> torchrun_rank()
    (0, 1)
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return 0, 1
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


@functools.cache
def context() -> BaseContext:
    """Multiprocessing context for this platform."""
    if sys.platform != "linux":  # elsewhere, forks are unsafe with system libraries in use
        return multiprocessing.get_context("spawn")
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(PRELOADED)
    return server


def warm_up() -> None:
    """Start the fork server, which imports the modules for runs in the background.

    Call this only before starting processes: the server lives as long as this process.
    """
    if context().get_start_method() == "forkserver":
        with _clean():
            forkserver.ensure_running()


def start(
    work: Callable[..., None], *arguments: Any, environment: Mapping[str, str] | None = None
) -> tuple[BaseProcess, Connection]:
    """Start a process for `work(pipe, *arguments)`; return it and our end of the pipe. It ends soon after its
    parent.

    environment: variables of the process besides those of its parent.
    """
    ours, theirs = context().Pipe()
    how: Any = context()
    # not daemonic: a daemonic process cannot have data-loader workers
    process = how.Process(target=_live, args=(work, theirs, {**os.environ, **(environment or {})}, *arguments))
    with _clean():
        process.start()
    theirs.close()
    return process, ours


def stop(processes: Iterable[BaseProcess], patience: float = PATIENCE) -> None:
    """Terminate processes; kill those that do not respond."""
    processes = list(processes)
    for process in processes:
        process.terminate()
    until = time.monotonic() + patience
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
        if process.exitcode is None:
            process.kill()
            process.join()


def end_of(code: int | None) -> str:
    """Describe how a process ended without a result.

    >>> end_of(7)
    'its process exited with code 7'
    """
    if code is not None and code < 0:
        hint = ", often due to lack of memory" if -code == signal.SIGKILL else ""
        return f"its process was killed by signal {-code} ({signal.Signals(-code).name}{hint})"
    return f"its process exited with code {code}"


def end_with_parent(_: object = None) -> None:
    """End this process as soon as its parent is gone."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel, born_under = parent.sentinel, os.getppid()

    def watch() -> None:
        # forks of one process keep each other's sentinels open, so compare the parent's process id instead
        while not wait([sentinel], timeout=0.25) and os.getppid() == born_under:
            pass
        os._exit(1)

    threading.Thread(target=watch, name="end with parent", daemon=True).start()


def _live(work: Callable[..., None], pipe: Connection, environment: dict[str, str], *arguments: Any) -> None:
    os.environ.clear()  # the fork server still has the environment of its start
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent handles it
    end_with_parent()
    gc.freeze()  # what the fork server imported is no garbage, and its memory stays shared
    work(pipe, *arguments)


@contextmanager
def _clean() -> Iterator[None]:
    """Context in which started processes ignore Ctrl-C, have no working directory on their path and no main script."""
    script, path, safe = sys.modules["__main__"], sys.path, os.environ.get(_SAFE_PATH)
    sys.modules["__main__"] = ModuleType("__main__")
    sys.path = [entry for entry in path if entry]
    os.environ[_SAFE_PATH] = "1"
    resource_tracker.ensure_running()  # first: starting the tracker unblocks all signals
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        sys.modules["__main__"], sys.path = script, path
        if safe is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = safe
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)
