"""Imported only by the processes of a Ray, before their first run: all modules that a run needs."""

from __future__ import annotations

import gc
import importlib

from levelfield.distributed.processes import PRELOADED

gc.disable()  # it would go through all modules many times and find nothing
try:
    for _name in ("levelfield.studies.execution.cluster.task", *PRELOADED):
        importlib.import_module(_name)
finally:
    gc.enable()
gc.freeze()  # every run begins with a collection, which would go through all modules again
