"""Ray on this machine, started and shut down in the background: each takes seconds in which a command can work."""

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
_PATIENCE = 10.0  # seconds that the exit of the program waits for the shutdown


class LocalRay:
    """Starts Ray in a thread. cpus: None for all of this machine. modules: imported by its processes before any task.

    The same thread starts Ray and shuts it down: Linux ends Ray's processes together with the thread that started them.
    """

    def __init__(self, ray: Any, cpus: int | None, modules: Sequence[str]) -> None:
        self.cpus, self.is_used = cpus, False
        self.error: Exception | None = None
        self._imports: list[Any] = []
        self._ready, self.over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._live, args=(ray, list(modules)), name="local Ray", daemon=True)
        self._thread.start()
        # a thread that is stopped at the exit while Ray starts can abort the process
        atexit.register(self.end, _PATIENCE)

    def end(self, patience: float | None = None) -> None:
        """Shut Ray down, and wait until it is."""
        self.over.set()
        self._thread.join(patience)

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Context in which Ray is ready; raises the error of its start. It is then shut down in the background."""
        self.is_used = True
        try:
            self._ready.wait()
            if self.error is not None:
                raise self.error
            yield
        except BaseException:  # its traceback keeps objects of Ray alive, which must not be freed during the shutdown
            self.end()
            raise
        self.over.set()

    def _live(self, ray: Any, modules: list[str]) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "include_dashboard": False}
        try:
            with _without_warnings(), safe_path() as environment:
                ray.init(
                    address="local", num_cpus=self.cpus, object_store_memory=STORE, runtime_env=environment, **quiet
                )
            # each process imports what its first task needs, while the command prepares the runs
            task = ray.remote(num_cpus=1)(_import_all)
            self._imports = [task.remote(modules) for _ in range(self.cpus or 1) if modules]
        except Exception as error:  # raised by `ready`
            self.error = error
            return
        finally:
            self._ready.set()
        self.over.wait()
        ray.shutdown()


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


_latest: LocalRay | None = None


def start(ray: Any, cpus: int, modules: Sequence[str]) -> None:
    """Start a Ray for the next `running`, unless one was started. Without a `running` it ends with this process."""
    global _latest
    if not is_early():
        _latest = LocalRay(ray, cpus, modules)


@contextmanager
def running(ray: Any, cpus: int | None, modules: Sequence[str]) -> Iterator[None]:
    """Context with a Ray that is ready: the one that was started early, if it has as many cores, or a new one."""
    global _latest
    if _latest is None or _latest.is_used or _latest.cpus != cpus:
        end_early()
        _latest = LocalRay(ray, cpus, modules)
    with _latest.ready():
        yield


def is_early() -> bool:
    """Whether a Ray was started early and is not used yet."""
    return _latest is not None and not _latest.is_used and _latest.error is None


def end_early() -> None:
    """End a Ray that was started early and is not needed."""
    global _latest
    if _latest is not None and not _latest.is_used:
        _latest.end()
        _latest = None


def wait_for_end() -> None:
    """Wait for a Ray that is ending."""
    if _latest is not None and _latest.over.is_set():
        _latest.end()


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
