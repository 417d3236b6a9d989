"""What a node does: one run, as a generator of its progress, its checkpoints and, at the end, its folder.

If the node writes into the study's own folder, only progress is sent. Otherwise the run is made in a scratch folder,
which begins with what the driver has of it, and the driver gets every checkpoint and the finished folder.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from levelfield.files.writing import default_cache_folder, scratch_folder
from levelfield.studies.execution.cluster.nodes import Mark
from levelfield.studies.execution.cluster.parcels import Changes, Parcel, pack, unpack
from levelfield.studies.execution.events import Event, RunsProgress
from levelfield.studies.execution.executor import do_claimed
from levelfield.studies.runs.training import Task

PAUSE = 0.2  # seconds between two checks for a new checkpoint
UNREACHABLE = "unreachable"  # kind of the event of a node that does not see the study's folder


def work_on(
    number: int,
    task: Task,
    working_directory: Path,
    mark: Mark | None,
    state: Parcel | None,
    *needed: tuple[str, Parcel],
) -> Iterator[Event | Parcel]:
    """Execute a run.

    mark: of the study's folder; None: the node has a folder of its own. state: what the driver has of the run's folder.
    needed: the folders of the runs that it needs.
    """
    if working_directory.is_dir():
        os.chdir(working_directory)  # relative paths of a study mean the same as for its driver
    if mark is not None:
        if mark.is_seen:
            yield from _events(number, task, None)
        else:
            yield Event(UNREACHABLE, number, socket.gethostname())
        return
    with scratch_folder(default_cache_folder() / "cluster", "run") as scratch:
        for path, parcel in needed:
            unpack(parcel, scratch / path)
        home = task.folder
        folder = scratch / home.parts[-2] / home.parts[-1]
        folder.mkdir(parents=True, exist_ok=True)
        if state is not None:
            unpack(state, folder)
        task = replace(task, folder=folder, options=replace(task.options, home=home))
        yield from _events(number, task, Changes(folder))


def _events(number: int, task: Task, changes: Changes | None) -> Iterator[Event | Parcel]:
    """The events of a run. It is executed in a thread, so that this one can send them."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    thread = threading.Thread(target=_execute, args=(number, task, events), name="run", daemon=True)
    thread.start()
    while True:
        try:
            event = events.get(timeout=PAUSE)
        except queue.Empty:
            event = None
        ended = event is not None and event.kind in ("done", "failed")
        if changes is not None:
            parcel = pack(task.folder) if ended else changes.new()
            if parcel is not None:
                yield parcel
        if event is not None:
            yield event
        if ended:
            thread.join()
            return


def _execute(number: int, task: Task, events: queue.SimpleQueue[Event]) -> None:
    process = f"{socket.gethostname()} {os.getpid()}"
    progress = RunsProgress(lambda event: events.put(replace(event, text=process) if event.kind == "start" else event))
    try:
        event = do_claimed(number, task, progress)
    except BaseException as error:  # the other thread must receive an end
        event = Event("failed", number, f"{type(error).__name__}: {error}")
    events.put(event)
