"""What a node does: one run, as a generator of its progress, its checkpoints and, at the end, its folder.

If the node writes into the study's own folder, only progress is sent. Otherwise the run is made in a scratch folder,
which begins with what the driver has of it, and the driver gets every checkpoint and the finished folder.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from levelfield.files.writing import default_cache_folder, scratch_folder, write_whole
from levelfield.studies.execution.cluster.nodes import Mark
from levelfield.studies.execution.events import Event, RunsProgress
from levelfield.studies.execution.executor import do_claimed
from levelfield.studies.runs.folder.files import FINISHED, TRAINED
from levelfield.studies.runs.training import Task
from levelfield.training.checkpoint import CHECKPOINT

PAUSE = 0.2  # seconds between two checks for a new checkpoint
UNREACHABLE = "unreachable"  # kind of the event of a node that does not see the study's folder
STATES = (CHECKPOINT, TRAINED, FINISHED)  # sent last, in this order: each says that what comes before it is there
_LOCK = "lock"  # of the machine whose process does the run


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


@dataclass(frozen=True)
class Parcel:
    """Files by their path in the folder. whole: the folder has no others."""

    files: dict[str, bytes]
    whole: bool


def pack(folder: Path, names: Iterable[str] | None = None) -> Parcel:
    """All files of a folder, or those with some names as far as they exist.

    >>> import tempfile
    >>> first, second = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    >>> _ = (first / "log.jsonl").write_text("{}")
    >>> unpack(pack(first), second)
    >>> (second / "log.jsonl").read_text()
    '{}'
    """
    files = {}
    for name in _names(folder) if names is None else names:
        with suppress(FileNotFoundError):  # a checkpoint is removed at the end
            files[name] = (folder / name).read_bytes()
    return Parcel(files, whole=names is None)


def unpack(parcel: Parcel, folder: Path) -> None:
    """Write the files, each of them atomically and the last of a stage last; those of a whole folder replace others."""
    for name in sorted(parcel.files, key=lambda name: (STATES.index(name) + 1 if name in STATES else 0, name)):
        content = parcel.files[name]
        write_whole(folder / name, lambda file, content=content: file.write(content))  # type: ignore[misc]
    if parcel.whole:
        for name in set(_names(folder)) - set(parcel.files):
            (folder / name).unlink(missing_ok=True)


class Changes:
    """Notices what is new in the folder of a run that trains: at each checkpoint, and when training is complete."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen = self._stamps()

    def new(self) -> Parcel | None:
        """The files that changed since the last parcel, if a checkpoint or the end of training is among them."""
        now = self._stamps()
        changed = [name for name, stamp in now.items() if self._seen.get(name) != stamp]
        if not {CHECKPOINT, TRAINED} & set(changed):
            return None
        self._seen = now
        # the checkpoint first: a log that is longer than its checkpoint is shortened on resume
        return pack(self.folder, sorted(changed, key=lambda name: name != CHECKPOINT))

    def _stamps(self) -> dict[str, tuple[int, int]]:
        stamps = {}
        for name in _names(self.folder):
            with suppress(FileNotFoundError):
                status = (self.folder / name).stat()
                stamps[name] = (status.st_mtime_ns, status.st_size)
        return stamps


def _names(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and str(name) != _LOCK and not any(part.startswith(".") for part in name.parts):
            yield name.as_posix()
