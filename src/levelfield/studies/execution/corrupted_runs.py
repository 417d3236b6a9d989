"""Evaluate finished runs on corrupted test images on the nodes of a cluster that see their folders."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from levelfield.data.decoders import decoding
from levelfield.progress import Progress
from levelfield.studies.runs.corrupted_scores import missing, record
from levelfield.trust import as_trusted, trusted

RETRIES = 10  # of a task whose node or process is lost; what it stored is not computed again


def record_on(
    ray: Any, folders: Sequence[Path], names: Sequence[str], metrics: Sequence[str], progress: Mapping[Path, Progress]
) -> dict[Path, str]:
    """Like `record`: one task for each corruption, so that no image is corrupted twice."""
    relative = {folder.absolute(): folder for folder in folders}
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(_evaluate_on_node)
    promised = {
        task.remote(list(relative), name, metrics, trusted(), Path.cwd()): name
        for name in missing(folders, names, metrics)
    }
    failed: dict[Path, str] = {}
    waiting = list(promised)
    try:
        while waiting:
            [ready], waiting = ray.wait(waiting, num_returns=1)
            try:
                failed |= ray.get(ready)
            except ray.exceptions.RayError as error:
                reason = next(iter(str(error).splitlines()), type(error).__name__)
                failed |= {folder: reason for folder in relative if missing([folder], [promised[ready]], metrics)}
            for folder in folders:
                progress[folder].report("corrupted", len(promised) - len(waiting), len(promised))
    finally:
        for each in waiting:
            ray.cancel(each, force=True)
    return {relative[folder]: reason for folder, reason in failed.items()}


def _evaluate_on_node(
    folders: Sequence[Path], name: str, metrics: Sequence[str], trust: tuple[str, ...] | None, directory: Path
) -> dict[Path, str]:
    if directory.is_dir():
        os.chdir(directory)
    torch.set_num_threads(1)
    with as_trusted(trust), decoding(1):
        return record(folders, [name], metrics)
