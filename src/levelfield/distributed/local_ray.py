"""A Ray of this machine alone, started and ended in the background: both take seconds in which a command can work."""

from __future__ import annotations

import atexit
import importlib
import logging
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

STORE = 256 * 1024**2  # bytes of shared memory
_PATIENCE = 10.0  # seconds that the exit of the program waits for its end


class LocalRay:
    """Starts at once. cpus: None for all of this machine. modules: imported by its processes before their first task.

    All of it happens in one thread, which lives as long as Ray does: Linux ends Ray's processes with the thread that
    started them. At the exit of the program it is ended, too.
    """

    def __init__(self, ray: Any, cpus: int | None, modules: Sequence[str]) -> None:
        self.cpus, self._ray, self._modules = cpus, ray, list(modules)
        self._ready, self._over = threading.Event(), threading.Event()
        self._error: Exception | None = None
        self._imports: list[Any] = []
        self._thread = threading.Thread(target=self._live, name="local Ray", daemon=True)
        self._thread.start()
        atexit.register(self._end_at_exit)

    @property
    def failed(self) -> bool:
        return self._error is not None

    def wait(self) -> None:
        """Wait until it is ready; raise what prevented it."""
        self._ready.wait()
        if self._error is not None:
            raise self._error

    def end(self) -> None:
        """End it in the background."""
        self._over.set()

    def wait_for_end(self) -> None:
        """Wait until it has ended, if it is ending."""
        if self._over.is_set():
            self._thread.join()

    def _end_at_exit(self) -> None:
        """Not in the midst of its start: a thread that ends inside of Ray may take the program with it."""
        self.end()
        self._thread.join(_PATIENCE)

    def _live(self) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "include_dashboard": False}
        try:
            with _without_warnings(), safe_path() as environment:
                self._ray.init(
                    address="local", num_cpus=self.cpus, object_store_memory=STORE, runtime_env=environment, **quiet
                )
            self._import_modules()
        except Exception as error:  # raised by `wait`
            self._error = error
            return
        finally:
            self._ready.set()
        self._over.wait()
        self._ray.shutdown()

    def _import_modules(self) -> None:
        """Let each process import what its first task needs, while the command prepares the runs."""
        if self._modules:
            task = self._ray.remote(num_cpus=1)(_import_all)
            self._imports = [task.remote(self._modules) for _ in range(self.cpus or 1)]


@contextmanager
def safe_path() -> Iterator[dict[str, str]]:
    """Context with the runtime environment of a job whose processes do not import from the working directory.

    Without a `working_dir`, Ray adds the directory of the driver to the path of every process. `ray.init` copies this
    empty one.
    """
    with tempfile.TemporaryDirectory() as folder:
        yield {"working_dir": folder}


def _import_all(modules: Sequence[str]) -> None:
    for name in modules:
        importlib.import_module(name)


_early: LocalRay | None = None
_last: LocalRay | None = None


def start(ray: Any, cpus: int, modules: Sequence[str]) -> None:
    """Start a Ray for the next `running`. If there is none, it ends with this process."""
    global _early
    if not is_early():
        _early = LocalRay(ray, cpus, modules)


@contextmanager
def running(ray: Any, cpus: int | None, modules: Sequence[str]) -> Iterator[None]:
    """Context with a Ray that is ready: the one that was started early, if it has as many cores, or a new one."""
    global _early, _last
    if _early is not None and _early.cpus != cpus:
        end_early()
    _last, _early = _early or LocalRay(ray, cpus, modules), None
    local = _last
    try:
        local.wait()
        yield
    except BaseException:  # its traceback keeps objects of Ray, which must not be freed while Ray ends
        local.end()
        local.wait_for_end()
        raise
    local.end()


def is_early() -> bool:
    """Whether a Ray was started early and is not used yet."""
    return _early is not None and not _early.failed


def end_early() -> None:
    """End a Ray that was started early and is not needed."""
    global _early
    ended, _early = _early, None
    if ended is not None:
        ended.end()
        ended.wait_for_end()


def wait_for_end() -> None:
    """Wait for a Ray that is ending."""
    if _last is not None:
        _last.wait_for_end()


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Context without Ray's warnings that a thread starts it, and that others need its token."""
    logger = logging.getLogger("ray")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
