"""The executor that gives runs to Ray: on this machine, or on a cluster."""

from __future__ import annotations

from levelfield.distributed.processes import PRELOADED


def preloaded(threads: int) -> list[str]:
    """What the processes of a local Ray import before their first run.

    Ray starts one for each core. If runs have several threads, most of them are never used.
    """
    return ["levelfield.studies.execution.cluster.task", *PRELOADED] if threads == 1 else []
