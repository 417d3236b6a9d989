"""One driver for a study on a cluster, and one command for a run on a file system.

The driver, not the node, holds the lock of a run: locks of a file system need not hold between machines.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from levelfield.errors import BadInput
from levelfield.files.writing import locked
from levelfield.studies.execution.cluster.nodes import pinned

PATIENCE = 20.0  # seconds until the claim of a killed driver is gone


class Claim:
    """An actor whose name is the claim. It ends with its driver."""


@contextmanager
def claimed_study(ray: Any, folder: Path) -> Iterator[None]:
    """Hold the claim of a study on a cluster; raises if another command holds it."""
    name = "study " + hashlib.blake2b(os.path.realpath(folder).encode(), digest_size=12).hexdigest()
    node = pinned(ray.get_runtime_context().get_node_id())
    claim = ray.remote(Claim).options(
        name=name, namespace="levelfield", num_cpus=0, max_restarts=-1, scheduling_strategy=node
    )
    until = time.monotonic() + PATIENCE
    while True:
        try:
            holder = claim.remote()
            break
        except ValueError as error:  # the name is taken
            if time.monotonic() > until:
                raise BadInput(
                    f"Another command on this cluster is executing the study in {folder}. Wait for its end, or choose "
                    "another --out."
                ) from error
            time.sleep(0.5)
    try:
        yield
    finally:
        ray.kill(holder)


def claim_run(folder: Path) -> ExitStack | None:
    """The lock of a run, held until it is closed; None if another command on this file system has it."""
    lock = ExitStack()
    try:
        mine = lock.enter_context(locked(folder / "lock", wait=False))
    except OSError:  # a file system without locks: the claim of the study is enough
        mine = True
    if mine:
        return lock
    lock.close()
    return None
