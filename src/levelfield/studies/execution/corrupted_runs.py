"""Evaluate finished runs on corrupted test images in several processes or Ray tasks, each with some of the corruptions.

As in one process, no image is corrupted twice, and nothing below the cut is computed twice.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, cast

import torch

from levelfield.data.decoders import decoders_per_job, decoding
from levelfield.distributed import processes
from levelfield.embedder.devices import computing_on, environment_of, requested, usable
from levelfield.errors import LevelfieldError
from levelfield.progress import CallbackProgress, Progress
from levelfield.studies.runs.corrupted_scores import record, recorded
from levelfield.trust import as_trusted, trusted

RETRIES = 10  # of a Ray task whose node or process is lost; what it stored is not computed again


@dataclass(frozen=True)
class Share:
    """Finished runs, and the corruptions under which one process evaluates them."""

    folders: list[Path]
    names: list[str]
    metrics: list[str]

    def evaluate(self, progress: Mapping[Path, Progress]) -> dict[Path, str]:
        """Like `record`; an error that stops all runs at once is the reason for each unfinished run."""
        try:
            return record(self.folders, self.names, self.metrics, progress)
        except LevelfieldError as error:
            return self.lost(str(error))

    def lost(self, reason: str) -> dict[Path, str]:
        """The runs that should have been evaluated but were not."""
        return {folder: reason for folder in self.folders if self._missing([folder])}

    def divided(self, count: int) -> list[Share]:
        """At most `count` shares of the missing corruptions."""
        missing = self._missing(self.folders)
        return [Share(self.folders, missing[k::count], self.metrics) for k in range(min(count, len(missing)))]

    def _missing(self, folders: Sequence[Path]) -> list[str]:
        """The corruptions under which a run has not been evaluated yet."""
        wanted = set(self.metrics)
        return [name for name in self.names if any(wanted - recorded(folder, name).keys() for folder in folders)]


def record_all(
    folders: Sequence[Path],
    names: Sequence[str],
    metrics: Sequence[str],
    *,
    jobs: int,
    progress: Mapping[Path, Progress],
) -> dict[Path, str]:
    """Like `record`, with `jobs` processes; 0 or 1: in this process."""
    whole = Share(list(folders), list(names), list(metrics))
    shares = whole.divided(jobs)
    if len(shares) < 2:
        return whole.evaluate(progress)
    settings = (max(1, torch.get_num_threads() // len(shares)), decoders_per_job(len(shares)), trusted())
    device = usable(requested())
    workers: dict[Connection, tuple[BaseProcess, Share]] = {}
    failed: dict[Path, str] = {}
    try:
        for slot, share in enumerate(shares):
            environment = environment_of(slot, device)
            process, pipe = processes.start(_work, share, *settings, device, environment=environment)
            workers[pipe] = (process, share)
        while workers:
            for ready in wait(list(workers)):
                pipe = cast(Connection, ready)
                process, share = workers[pipe]
                try:
                    message = pipe.recv()
                except (EOFError, ConnectionError):
                    del workers[pipe]
                    process.join()
                    failed = share.lost(processes.end_of(process.exitcode)) | failed
                    continue
                if isinstance(message, dict):
                    failed |= message
                else:
                    folder, *stage = message
                    progress[folder].report(*stage)
    finally:
        processes.stop([process for process, _ in workers.values()])
    return failed


def _work(
    pipe: Connection, share: Share, threads: int, workers: int, trust: tuple[str, ...] | None, device: str
) -> None:
    """Main function of a process: evaluate its share and send progress and failures."""
    torch.set_num_threads(threads)

    def send(folder: Path, *stage: str | int) -> None:
        try:
            pipe.send((folder, *stage))
        except ConnectionError:  # the parent is gone; a later command can do the rest
            sys.exit(1)

    with as_trusted(trust), computing_on(device), decoding(workers):
        failed = share.evaluate({folder: CallbackProgress(partial(send, folder)) for folder in share.folders})
    with contextlib.suppress(ConnectionError):
        pipe.send(failed)


def record_on(
    ray: Any, folders: Sequence[Path], names: Sequence[str], metrics: Sequence[str], progress: Mapping[Path, Progress]
) -> dict[Path, str]:
    """Like `record_all`, on the nodes of a cluster that see the folders of the runs: one task for each corruption."""
    relative = {folder.absolute(): folder for folder in folders}
    shares = Share(list(relative), list(names), list(metrics)).divided(len(names))
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(_evaluate_on_node)
    promised = {task.remote(share, trusted(), Path.cwd()): share for share in shares}
    failed: dict[Path, str] = {}
    waiting = list(promised)
    try:
        while waiting:
            [ready], waiting = ray.wait(waiting, num_returns=1)
            try:
                failed |= ray.get(ready)
            except ray.exceptions.RayError as error:
                failed |= promised[ready].lost(next(iter(str(error).splitlines()), type(error).__name__))
            for folder in folders:
                progress[folder].report("corrupted", len(promised) - len(waiting), len(promised))
    finally:
        for each in waiting:
            ray.cancel(each, force=True)
    return {relative[folder]: reason for folder, reason in failed.items()}


def _evaluate_on_node(share: Share, trust: tuple[str, ...] | None, directory: Path) -> dict[Path, str]:
    if directory.is_dir():
        os.chdir(directory)
    torch.set_num_threads(1)
    with as_trusted(trust), decoding(1):
        return share.evaluate({})
