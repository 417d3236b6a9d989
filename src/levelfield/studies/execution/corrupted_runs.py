"""Evaluate finished runs on corrupted test images in several processes, each with some corruptions for all runs.

As in one process, no image is corrupted twice, and nothing below the cut is computed twice.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from levelfield.data.decoders import choose_decoders, decoders_per_job
from levelfield.distributed import processes
from levelfield.embedder.devices import computing_on, environment_of, requested, usable
from levelfield.errors import LevelfieldError
from levelfield.progress import CallbackProgress, Progress
from levelfield.studies.runs.corrupted_scores import record, recorded
from levelfield.trust import as_trusted, trusted


def record_all(
    folders: Sequence[Path],
    names: Sequence[str],
    metrics: Sequence[str],
    *,
    jobs: int,
    progress: Mapping[Path, Progress],
) -> dict[Path, str]:
    """Like `record`, with `jobs` processes; 0 or 1: in this process."""
    left = missing(folders, names, metrics)
    shares = [left[k::jobs] for k in range(min(jobs, len(left)))]
    if len(shares) < 2:
        return record_here(folders, names, metrics, progress)
    shared = (max(1, torch.get_num_threads() // len(shares)), decoders_per_job(len(shares)))
    device = usable(requested())
    workers: dict[Connection, tuple[BaseProcess, list[str]]] = {}
    failed: dict[Path, str] = {}
    try:
        for slot, share in enumerate(shares):
            work = (list(folders), share, list(metrics), *shared, trusted(), device)
            process, ours = processes.start(_work, *work, environment=environment_of(slot, device))
            workers[ours] = (process, share)
        while workers:
            for pipe in wait(list(workers)):
                assert isinstance(pipe, Connection)
                try:
                    message = pipe.recv()
                except (EOFError, ConnectionError):
                    process, share = workers.pop(pipe)
                    process.join()
                    failed = lost(folders, share, metrics, processes.end_of(process.exitcode)) | failed
                    continue
                if isinstance(message, dict):
                    failed |= message
                else:
                    folder, *stage = message
                    progress[folder].report(*stage)
    finally:
        processes.stop([process for process, _ in workers.values()])
    return failed


def record_here(
    folders: Sequence[Path], names: Sequence[str], metrics: Sequence[str], progress: Mapping[Path, Progress]
) -> dict[Path, str]:
    """Like `record`; an error that stops all runs at once is the reason for each unfinished run."""
    try:
        return record(folders, names, metrics, progress)
    except LevelfieldError as error:
        return lost(folders, names, metrics, str(error))


def lost(folders: Sequence[Path], names: Sequence[str], metrics: Sequence[str], reason: str) -> dict[Path, str]:
    """The runs that should have been evaluated but were not."""
    return {folder: reason for folder in folders if missing([folder], names, metrics)}


def missing(folders: Sequence[Path], names: Sequence[str], metrics: Sequence[str]) -> list[str]:
    """The corruptions under which a run has not been evaluated yet."""
    return [name for name in names if any(set(metrics) - recorded(folder, name).keys() for folder in folders)]


def _work(
    pipe: Connection,
    folders: list[Path],
    names: list[str],
    metrics: list[str],
    threads: int,
    workers: int,
    trust: tuple[str, ...] | None,
    device: str,
) -> None:
    """Main function of a process: evaluate its corruptions and report the result."""
    torch.set_num_threads(threads)
    choose_decoders(workers)

    def send(folder: Path, *stage: str | int) -> None:
        try:
            pipe.send((folder, *stage))
        except ConnectionError:  # the parent is gone; a later command can do the rest
            sys.exit(1)

    with as_trusted(trust), computing_on(device):
        progress = {folder: CallbackProgress(partial(send, folder)) for folder in folders}
        failed = record_here(folders, names, metrics, progress)
    with contextlib.suppress(ConnectionError):
        pipe.send(failed)
