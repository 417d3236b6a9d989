"""Processes: started clean, and ended with whoever started them.

A process is a copy of one that has imported levelfield and done nothing else (a fork server, where the system has one),
so that it costs milliseconds and not the seconds that importing torch takes. It never imports from the working
directory, nor runs the script that called us: what it needs is handed to it.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any

PRELOADED = ["levelfield.studies.execution.preload"]
PATIENCE = 2.0  # seconds that a process has to end by itself
_SAFE_PATH = "PYTHONSAFEPATH"


@functools.cache
def context() -> BaseContext:
    """How processes are started here."""
    if sys.platform != "linux":  # elsewhere a fork may not use what the system's own libraries have begun
        return multiprocessing.get_context("spawn")
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(PRELOADED)
    return found


def warm_up() -> None:
    """Start the fork server, which imports what runs need while this process goes on with its own work.

    Whoever calls this is about to start processes: the server lives as long as this process.
    """
    if context().get_start_method() == "forkserver":
        with _clean():
            forkserver.ensure_running()


def start(work: Callable[..., None], *arguments: Any) -> tuple[BaseProcess, Connection]:
    """A process that does `work(pipe, *arguments)`, and our end of the pipe. It ends soon after this one."""
    ours, theirs = context().Pipe()
    how: Any = context()
    # no daemon: those may have no loader workers
    process = how.Process(target=_live, args=(work, theirs, dict(os.environ), *arguments))
    with _clean():
        process.start()
    theirs.close()
    return process, ours


def stop(processes: Iterable[BaseProcess], patience: float = PATIENCE) -> None:
    """End processes; one that does not listen is killed."""
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
    """What became of a process that did not say goodbye.

    >>> end_of(7)
    'its process ended with code 7'
    """
    if code is not None and code < 0:
        hint = ", often due to lack of memory" if -code == signal.SIGKILL else ""
        return f"its process was killed by signal {-code} ({signal.Signals(-code).name}{hint})"
    return f"its process exited with code {code}"


def end_with_parent(_: object = None) -> None:
    """End this process when the one that asked for it is gone, whatever it is doing then."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel, born_under = parent.sentinel, os.getppid()

    def watch() -> None:
        # forks of one process hold each other's sentinels open: they see by their parent's number that it is gone
        while not wait([sentinel], timeout=0.25) and os.getppid() == born_under:
            pass
        os._exit(1)

    threading.Thread(target=watch, name="end with parent", daemon=True).start()


def _live(work: Callable[..., None], pipe: Connection, environment: dict[str, str], *arguments: Any) -> None:
    os.environ.clear()  # a fork server has the one that was there when it began
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group, and the parent decides
    end_with_parent()
    _share_the_fork_server()
    work(pipe, *arguments)


def _share_the_fork_server() -> None:
    """A process of a fork server asks that one for more; Python would start another for it (CPython 3.11 to 3.13)."""
    server: Any = forkserver._forkserver
    if forkserver.get_inherited_fds() is not None and server._forkserver_pid is None:
        server.ensure_running = lambda: None


@contextmanager
def _clean() -> Iterator[None]:
    """Inside, what is started hears no Ctrl-C, has no working directory on its path and does not know our script."""
    script, path, safe = sys.modules["__main__"], sys.path, os.environ.get(_SAFE_PATH)
    sys.modules["__main__"] = ModuleType("__main__")
    sys.path = [place for place in path if place]
    os.environ[_SAFE_PATH] = "1"
    heard = None
    try:
        if hasattr(signal, "pthread_sigmask"):
            resource_tracker.ensure_running()  # first: where it starts, it lets every signal through again
            heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield
    finally:
        sys.modules["__main__"], sys.path = script, path
        if safe is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = safe
        if heard is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)
