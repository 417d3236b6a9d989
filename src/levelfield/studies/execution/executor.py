"""What an executor gets and returns: the runs of a plan in their order, and the outcome of each.

This process, its `workers` and an executor such as Ray (`cluster`) all use `do_claimed`, so a run has the same bits
wherever it is done.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from levelfield.errors import LevelfieldError
from levelfield.files.writing import locked, write_text
from levelfield.studies.execution.events import Event, RunsProgress
from levelfield.studies.runs.folder.files import FAILED
from levelfield.studies.runs.folder.store import is_finished
from levelfield.studies.runs.run import Options, execute
from levelfield.studies.runs.several_processes import message_of
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.runs.training import Task


class Executor(Protocol):
    """Executes the unfinished runs of a plan elsewhere than in this process or its workers."""

    def execute(self, work: Work) -> None:
        """Take runs from `work.agenda` and settle each of them; returns when no run is left."""


class Agenda:
    """Chooses the next run: the first whose needed runs are finished."""

    def __init__(self, runs: list[PlannedRun], unfinished: list[int]) -> None:
        self.waiting = list(unfinished)
        self._open = set(unfinished)
        self._titles = [run.title for run in runs]
        numbers: dict[str, set[int]] = {}  # a run may have several labels, and its folder may be under any of them
        for k, run in enumerate(runs):
            numbers.setdefault(run.spec.folder_name, set()).add(k)
        dependencies = ((numbers.get(need.name, ()) for need in run.spec.dependencies) for run in runs)
        self._needs = [set[int]().union(*positions) for positions in dependencies]

    def next(self) -> int | None:
        """Take a run; None if no run is left, or all others wait for active runs."""
        index = next((k for k in self.waiting if not self._needs[k] & self._open), None)
        if index is not None:
            self.waiting.remove(index)
        return index

    def end(self, number: int, *, failed: bool) -> list[Event]:
        """End a run. If it failed, the runs that need it fail, too; their events are returned."""
        self._open.discard(number)
        if not failed:
            return []
        lost = [k for k in self.waiting if number in self._needs[k]]
        self.waiting = [k for k in self.waiting if k not in lost]
        events = [Event("failed", k, f"it needs a run that failed: {self._titles[number]}") for k in lost]
        return events + [event for k in lost for event in self.end(k, failed=True)]


@dataclass
class Outcome:
    """Failed runs by number, with the reason, and finished runs that could not be evaluated on corrupted images."""

    failed: dict[int, str] = field(default_factory=dict)
    unmeasured: dict[int, str] = field(default_factory=dict)


@dataclass
class Work:
    """The runs of a plan and how to execute them; collects their outcome. Finished runs are reported as done."""

    runs: list[PlannedRun]
    study_folder: Path
    metrics: tuple[str, ...]
    options: Options
    progress: RunsProgress
    outcome: Outcome = field(default_factory=Outcome)
    agenda: Agenda = field(init=False)

    def __post_init__(self) -> None:
        unfinished = []
        for number in range(len(self.runs)):
            if self.is_finished(number):
                self.progress.on_event(Event("done", number, "finished before"))
            else:
                unfinished.append(number)
        self.agenda = Agenda(self.runs, unfinished)

    def is_finished(self, number: int) -> bool:
        return is_finished(self.folder(number), self.runs[number].spec, self.metrics)

    def folder(self, number: int) -> Path:
        return self.runs[number].folder(self.study_folder)

    def task(self, number: int) -> Task:
        return Task(self.runs[number].spec, self.folder(number), self.metrics, self.options)

    def settle(self, event: Event) -> None:
        """Record the end of a run; runs that need a failed run fail, too."""
        for ended in [event, *self.agenda.end(event.run, failed=event.kind == "failed")]:
            if ended.kind == "failed":
                self.outcome.failed[ended.run] = ended.text
            self.progress.on_event(ended)

    def lose(self, number: int, reason: str) -> None:
        """Settle a run whose process ended without a result."""
        self.settle(_failed(number, self.folder(number), reason, reason + "\n"))


def do_one(number: int, task: Task, *, patient: bool, progress: RunsProgress) -> Event:
    """Execute a run under its lock. A failure is written to its folder and returned, never raised.

    patient: whether to wait while another command executes the run.
    """
    try:
        with locked(task.folder / "lock", wait=patient) as mine:
            return do_claimed(number, task, progress) if mine else Event("busy", number)
    except Exception as error:  # no lock
        return _failed(number, task.folder, message_of(error), traceback.format_exc())


def do_claimed(number: int, task: Task, progress: RunsProgress) -> Event:
    """Execute a run that nobody else executes. A failure is written to its folder and returned, never raised."""
    try:
        if not is_finished(task.folder, task.spec, task.metrics):
            progress.on_event(Event("start", number))
            execute(task, progress.of_run(number))
            (task.folder / FAILED).unlink(missing_ok=True)
        return Event("done", number)
    except (Exception, SystemExit) as error:  # a user's code may call sys.exit
        return _failed(number, task.folder, message_of(error), traceback.format_exc())


def _failed(number: int, folder: Path, reason: str, details: str) -> Event:
    """Write an error to the run's folder; no error may stop the other runs."""
    try:
        write_text(folder / FAILED, details)
    except LevelfieldError as unwritable:
        reason = f"{reason} ({unwritable})"
    return Event("failed", number, reason)
