"""Execution: worker processes that take runs one by one, and a parent that only watches and assigns.

A run that crashes is reported and stops no other; a worker that dies is replaced. Two `compare` commands on one
study share the work, because a run is done by whoever holds its lock.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from levelfield import processes
from levelfield.errors import LevelfieldError
from levelfield.files import locked, write_text
from levelfield.studies.execution.events import SILENT_RUNS, Event, RunsProgress
from levelfield.studies.runs.folder.files import FAILED
from levelfield.studies.runs.folder.store import is_finished
from levelfield.studies.runs.own_code import data_is_own_code, names_own_code
from levelfield.studies.runs.run import Options, execute
from levelfield.studies.runs.spec import PlannedRun


class Agenda:
    """Which run comes next: the first whose needs are finished."""

    def __init__(self, runs: list[PlannedRun], unfinished: list[int]) -> None:
        self.waiting = list(unfinished)
        self._open = set(unfinished)
        self._titles = [run.title for run in runs]
        numbers: dict[str, set[int]] = {}  # a run may be planned under several labels, and lie under any of them
        for k, run in enumerate(runs):
            numbers.setdefault(run.spec.folder_name, set()).add(k)
        self._needs = [set[int]().union(*(numbers.get(need.name, ()) for need in run.spec.needs)) for run in runs]

    def next(self) -> int | None:
        """Take a run; None if nothing is left, or what is left waits for runs that are being done."""
        found = next((k for k in self.waiting if not self._needs[k] & self._open), None)
        if found is not None:
            self.waiting.remove(found)
        return found

    def end(self, number: int, *, failed: bool) -> list[Event]:
        """A run is over. If it failed, so have those that need it; they are given, with the reason."""
        self._open.discard(number)
        if not failed:
            return []
        lost = [k for k in self.waiting if number in self._needs[k]]
        self.waiting = [k for k in self.waiting if k not in lost]
        said = [Event("failed", k, f"it needs a run that failed: {self._titles[number]}") for k in lost]
        return said + [event for k in lost for event in self.end(k, failed=True)]


@dataclass
class Outcome:
    """How a study ended: the runs that failed, by number, with the reason; and those that are finished, but could not
    be measured on corrupted images."""

    failed: dict[int, str] = field(default_factory=dict)
    unmeasured: dict[int, str] = field(default_factory=dict)

    def refuse_if_all_failed(self, runs: int) -> None:
        """Without any finished run there is nothing to show."""
        if runs and len(self.failed) == runs:
            raise LevelfieldError(f"Every run failed; the first: {next(iter(self.failed.values()))}")


def run_all(
    runs: list[PlannedRun],
    study_folder: Path,
    metrics: tuple[str, ...],
    *,
    jobs: int,
    options: Options,
    progress: RunsProgress = SILENT_RUNS,
) -> Outcome:
    """Do all runs with `jobs` processes (0: in this one). Returns when every run is finished or failed.

    Somebody's own method trains in a process that it shares with nobody. The process that planned the study has loaded
    its file, so that nothing is measured there: with such a method 0 means 1.
    """
    outcome = Outcome()
    unfinished = [k for k, run in enumerate(runs) if not is_finished(run.folder(study_folder), run.spec, metrics)]
    for done in set(range(len(runs))) - set(unfinished):
        progress.on_event(Event("done", done, "finished before"))
    agenda = Agenda(runs, unfinished)

    def settle(event: Event) -> None:
        """Take in how a run ended; those that needed a failed one have failed, too."""
        for ended in [event, *agenda.end(event.run, failed=event.kind == "failed")]:
            if ended.kind == "failed":
                outcome.failed[ended.run] = ended.text
            progress.on_event(ended)

    if jobs == 0 and not any(names_own_code(runs[k].spec) for k in unfinished):
        while (k := agenda.next()) is not None:
            settle(do_one(k, runs[k], runs[k].folder(study_folder), metrics, options, patient=True, progress=progress))
        return outcome
    workers: dict[Connection, tuple[BaseProcess, int | None]] = {}
    held: list[int] = []  # runs that another command is doing: asked again, with patience, when nothing else is left

    def dismiss(pipe: Connection) -> None:
        process, _ = workers.pop(pipe)
        with contextlib.suppress(ConnectionError):
            pipe.send(None)
        process.join()
        pipe.close()

    def assign(pipe: Connection) -> None:
        process, _ = workers[pipe]
        k = agenda.next()
        patient = k is None
        if k is None and held:
            k = held.pop(0)
        workers[pipe] = (process, k)
        if k is not None:
            with contextlib.suppress(ConnectionError):  # a worker that is dead already is met at the next `recv`
                pipe.send((k, runs[k], runs[k].folder(study_folder), metrics, options, patient))
        elif not agenda.waiting:
            dismiss(pipe)

    def hire() -> None:
        process, ours = processes.start(_work)
        workers[ours] = (process, None)
        assign(ours)

    try:
        for _ in range(min(max(jobs, 1), len(unfinished))):
            hire()
        while workers:
            for ready in wait(list(workers)):
                pipe = ready
                assert isinstance(pipe, Connection)
                process, doing = workers[pipe]
                try:
                    event = pipe.recv()
                except (EOFError, ConnectionError):
                    process.join()
                    del workers[pipe]
                    if doing is not None:
                        reason = processes.end_of(process.exitcode)
                        with contextlib.suppress(LevelfieldError):  # it is reported in any case
                            write_text(runs[doing].folder(study_folder) / FAILED, reason + "\n")
                        settle(Event("failed", doing, reason))
                    if agenda.waiting or held:
                        hire()
                    continue
                if event.kind == "busy":
                    held.append(event.run)
                if event.kind in ("done", "failed"):
                    settle(event)
                else:
                    progress.on_event(event)
                if event.kind in ("done", "failed", "busy"):
                    if data_is_own_code(runs[event.run].spec):  # it ran here, to say what is measured
                        dismiss(pipe)
                        if agenda.waiting or held:
                            hire()
                    else:
                        assign(pipe)
            for pipe in [pipe for pipe, (_, doing) in workers.items() if doing is None]:
                assign(pipe)  # what it waited for may be there now
    finally:
        processes.stop([process for process, _ in workers.values()])
    return outcome


def _work(pipe: Connection) -> None:
    """A worker's life: take a run, do it, say how it went."""

    progress = _Sent(pipe)
    with contextlib.suppress(EOFError, ConnectionError):
        while (task := pipe.recv()) is not None:
            number, run, folder, metrics, options, patient = task
            progress.on_event(do_one(number, run, folder, metrics, options, patient=patient, progress=progress))


class _Sent(RunsProgress):
    """Sends every event to the parent process."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def on_event(self, event: Event) -> None:
        try:
            self._pipe.send(event)
        except ConnectionError:  # the parent was killed, and the run can go on another day
            sys.exit(1)


def do_one(
    number: int,
    run: PlannedRun,
    folder: Path,
    metrics: tuple[str, ...],
    options: Options,
    *,
    patient: bool,
    progress: RunsProgress,
) -> Event:
    """One run under its lock. A failure is written to the run's folder and returned, never raised."""
    try:
        with locked(folder / "lock", wait=patient) as mine:
            if not mine:
                return Event("busy", number)
            for left in folder.glob(".*.tmp"):  # with the lock held, a half file is a dead process's
                left.unlink(missing_ok=True)
            if not is_finished(folder, run.spec, metrics):
                progress.on_event(Event("start", number))
                execute(run.spec, folder, metrics, options=options, progress=progress.of_run(number))
                (folder / FAILED).unlink(missing_ok=True)
            return Event("done", number)
    except Exception as error:  # whatever a run dies of must not stop the others; it is reported and counted as failed
        try:
            write_text(folder / FAILED, traceback.format_exc())
        except LevelfieldError as unwritable:
            return Event("failed", number, f"{error} ({unwritable})")
        return Event(
            "failed", number, str(error) if isinstance(error, LevelfieldError) else f"{type(error).__name__}: {error}"
        )
