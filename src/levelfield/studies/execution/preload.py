"""Imported only by the fork server (see `levelfield.distributed.processes`): all modules that a run needs."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import threading

from levelfield.studies.execution import LAZY


def _import(name: str) -> None:
    """Import a module; exit at once if the parent command ends meanwhile."""
    done, parent = threading.Event(), os.getppid()

    def watch() -> None:
        while not done.wait(0.25):
            if os.getppid() != parent:
                os._exit(1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        importlib.import_module(name)
    finally:
        done.set()
        watcher.join()  # a process must have one thread when it forks


gc.disable()  # it would go through all modules many times and find nothing
for _name in ("levelfield.studies.execution.workers", *LAZY):
    _import(_name)
gc.enable()
gc.freeze()  # exclude imported objects from garbage collection, so that forks keep sharing their memory
atexit.register(os._exit, 0)  # tearing down torch takes seconds, for nothing
