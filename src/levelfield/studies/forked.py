"""What a fork server imports, and nobody else (`levelfield.processes`): all that a run needs, once for all processes."""

from __future__ import annotations

import atexit
import gc
import os

import levelfield.studies.execution  # noqa: F401

gc.freeze()  # what was imported is never searched for garbage, so that forks go on sharing its memory
atexit.register(os._exit, 0)  # taking torch apart takes seconds, and nobody waits for anything of a fork server
