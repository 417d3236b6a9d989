"""What a node does: one run, as a generator of its progress, its checkpoints and, at the end, its folder.

If the node writes into the study's own folder, only progress is sent. Otherwise the run is made in a scratch folder,
which begins with what the driver has of it, and the driver gets every checkpoint and the finished folder.
"""

from __future__ import annotations

import importlib
import os
import queue
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from levelfield.files.folders import default_cache_folder, scratch_folder
from levelfield.studies.execution.cluster import PRELOADED
from levelfield.studies.execution.cluster.features import Shipment, unpacked
from levelfield.studies.execution.cluster.parcels import Changes, Parcel, pack, unpack
from levelfield.studies.execution.events import Event, RunsProgress
from levelfield.studies.execution.executor import do_claimed
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.spec import PlannedRun

PAUSE = 0.2  # seconds between two looks for a new checkpoint
UNREACHABLE = "unreachable"
"""Kind of the event of a node that does not see the study's folder."""


@dataclass(frozen=True)
class Order:
    """A run to execute. mark: a file in the study's folder and its content; None: the node has a folder of its own."""

    number: int
    run: PlannedRun
    folder: Path
    metrics: tuple[str, ...]
    options: Options
    working_directory: Path
    mark: tuple[Path, str] | None


def work_on(
    order: Order, shipment: Shipment | None, state: Parcel | None, *needed: tuple[str, Parcel]
) -> Iterator[Event | Parcel]:
    """Execute a run.

    shipment: features, for a node without the images. state: what the driver has of the run's folder. needed: the
    folders of the runs that it needs.
    """
    importlib.import_module(PRELOADED)  # once in a process
    if shipment is not None:
        unpacked(shipment)
    if order.working_directory.is_dir():
        os.chdir(order.working_directory)  # relative paths of a study mean the same as for its driver
    if order.mark is not None:
        if not is_marked(*order.mark):
            yield Event(UNREACHABLE, order.number, socket.gethostname())
            return
        yield from _events(order, None)
        return
    with scratch_folder(default_cache_folder() / "cluster", "run") as scratch:
        label, name = order.folder.parts[-2:]
        for path, parcel in needed:
            unpack(parcel, scratch / path)
        folder = scratch / label / name
        folder.mkdir(parents=True, exist_ok=True)
        if state is not None:
            unpack(state, folder)
        here = replace(order, folder=folder, options=replace(order.options, home=order.folder))
        yield from _events(here, Changes(folder))


def is_marked(path: Path, content: str) -> bool:
    """Whether this machine sees the file with this content."""
    try:
        return path.read_text(encoding="utf-8") == content
    except OSError:
        return False


def _events(order: Order, changes: Changes | None) -> Iterator[Event | Parcel]:
    """What happens to a run. It is done in a thread, so that this one can send what it tells."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    thread = threading.Thread(target=_do, args=(order, events), name="run", daemon=True)
    thread.start()
    while True:
        event = _next(events)
        ended = event is not None and event.kind in ("done", "failed")
        if changes is not None:
            parcel = pack(order.folder) if ended else changes.new()
            if parcel is not None:
                yield parcel
        if event is not None:
            yield event
        if ended:
            thread.join()
            return


def _next(events: queue.SimpleQueue[Event]) -> Event | None:
    try:
        return events.get(timeout=PAUSE)
    except queue.Empty:
        return None


def _do(order: Order, events: queue.SimpleQueue[Event]) -> None:
    try:
        event = do_claimed(order.number, order.run, order.folder, order.metrics, order.options, _Queued(events))
    except BaseException as error:  # such as SystemExit of a user's file: the other thread must hear of the end
        event = Event("failed", order.number, f"{type(error).__name__}: {error}")
    events.put(event)


class _Queued(RunsProgress):
    def __init__(self, events: queue.SimpleQueue[Any]) -> None:
        self._queue = events

    def on_event(self, event: Event) -> None:
        self._queue.put(replace(event, text=_here()) if event.kind == "start" else event)


def _here() -> str:
    """The machine and process, for the event `start`."""
    return f"{socket.gethostname()} {os.getpid()}"
