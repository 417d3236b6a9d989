"""Finished runs on corrupted test images, as Ray tasks: each has one corruption for all runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from levelfield.data.decoders import decoding
from levelfield.progress import Progress
from levelfield.studies.execution.corrupted_runs import lost, missing, record_here
from levelfield.trust import as_trusted, trusted

RETRIES = 10  # of a task whose node or process is lost; what it stored is not computed again


def record_on(
    ray: Any, folders: Sequence[Path], names: Sequence[str], metrics: Sequence[str], progress: Mapping[Path, Progress]
) -> dict[Path, str]:
    """Like `record_all`, on the nodes of a cluster that see the folders of the runs."""
    relative, left = {folder.absolute(): folder for folder in folders}, missing(folders, names, metrics)
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(record_one)
    promised = {task.remote(list(relative), name, list(metrics), trusted(), Path.cwd()): name for name in left}
    failed: dict[Path, str] = {}
    waiting = list(promised)
    try:
        while waiting:
            [ready], waiting = ray.wait(waiting, num_returns=1)
            try:
                failed |= ray.get(ready)
            except ray.exceptions.RayError as error:
                reason = next(iter(str(error).splitlines()), type(error).__name__)
                failed |= lost(list(relative), [promised[ready]], metrics, reason)
            for folder in folders:
                progress[folder].report("corrupted", len(promised) - len(waiting), len(promised))
    finally:
        for one in waiting:
            ray.cancel(one, force=True)
    return {relative[folder]: reason for folder, reason in failed.items()}


def record_one(
    folders: Sequence[Path], name: str, metrics: Sequence[str], trust: tuple[str, ...] | None, directory: Path
) -> dict[Path, str]:
    """Evaluate runs under one corruption, on this machine."""
    if directory.is_dir():
        os.chdir(directory)
    torch.set_num_threads(1)
    with as_trusted(trust), decoding(1):
        return record_here(folders, [name], metrics, {})
