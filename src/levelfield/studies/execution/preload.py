"""What a fork server imports, and nobody else (see `levelfield.processes`): all that a run needs, once for all."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import threading


def _import(name: str) -> None:
    """Import a module; end at once if the command that wants it ends meanwhile."""
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
        watcher.join()  # a process that is to be forked has one thread


# the second and third are imported where a run first needs them, which would be in every process anew
for _name in ("levelfield.studies.execution.workers", "sklearn.utils.extmath", "torchvision.transforms.v2.functional"):
    _import(_name)
gc.freeze()  # what was imported is never searched for garbage, so that forks go on sharing its memory
atexit.register(os._exit, 0)  # taking torch apart takes seconds, and nobody waits for anything of a fork server
