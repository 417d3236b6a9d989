"""Execution: worker processes that execute runs one by one, and a parent that assigns runs and collects results.

A run that crashes is reported and does not stop the others; a dead worker is replaced. Two `compare` commands on one
study share the work: the process that holds the lock of a run executes it.
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
    """Chooses the next run: the first whose needed runs are finished."""

    def __init__(self, runs: list[PlannedRun], unfinished: list[int]) -> None:
        self.waiting = list(unfinished)
        self._open = set(unfinished)
        self._titles = [run.title for run in runs]
        numbers: dict[str, set[int]] = {}  # a run may have several labels, and its folder may be under any of them
        for k, run in enumerate(runs):
            numbers.setdefault(run.spec.folder_name, set()).add(k)
        self._needs = [set[int]().union(*(numbers.get(need.name, ()) for need in run.spec.needs)) for run in runs]

    def next(self) -> int | None:
        """Take a run; None if no run is left, or all others wait for active runs."""
        found = next((k for k in self.waiting if not self._needs[k] & self._open), None)
        if found is not None:
            self.waiting.remove(found)
        return found

    def end(self, number: int, *, failed: bool) -> list[Event]:
        """End a run. If it failed, the runs that need it fail, too; their events are returned."""
        self._open.discard(number)
        if not failed:
            return []
        lost = [k for k in self.waiting if number in self._needs[k]]
        self.waiting = [k for k in self.waiting if k not in lost]
        said = [Event("failed", k, f"it needs a run that failed: {self._titles[number]}") for k in lost]
        return said + [event for k in lost for event in self.end(k, failed=True)]


@dataclass
class Outcome:
    """The outcome of a study: failed runs by number, with the reason, and finished runs that could not be evaluated on
    corrupted images."""

    failed: dict[int, str] = field(default_factory=dict)
    unmeasured: dict[int, str] = field(default_factory=dict)

    def refuse_if_all_failed(self, runs: int) -> None:
        """Raise if no run finished."""
        if runs and len(self.failed) == runs:
            raise LevelfieldError(f"All runs failed. The first error: {next(iter(self.failed.values()))}")


def run_all(
    runs: list[PlannedRun],
    study_folder: Path,
    metrics: tuple[str, ...],
    *,
    jobs: int,
    options: Options,
    progress: RunsProgress = SILENT_RUNS,
) -> Outcome:
    """Execute all runs with `jobs` processes (0: in this process). Returns when every run is finished or failed.

    A user-defined method trains in a process of its own. This process has loaded the user's file while planning, so
    nothing may be evaluated here: with such a method 0 means 1.
    """
    outcome = Outcome()
    unfinished = [k for k, run in enumerate(runs) if not is_finished(run.folder(study_folder), run.spec, metrics)]
    for done in set(range(len(runs))) - set(unfinished):
        progress.on_event(Event("done", done, "finished before"))
    agenda = Agenda(runs, unfinished)

    def settle(event: Event) -> None:
        """Record the end of a run; runs that need a failed run fail, too."""
        for ended in [event, *agenda.end(event.run, failed=event.kind == "failed")]:
            if ended.kind == "failed":
                outcome.failed[ended.run] = ended.text
            progress.on_event(ended)

    if jobs == 0 and not any(names_own_code(runs[k].spec) for k in unfinished):
        while (k := agenda.next()) is not None:
            settle(do_one(k, runs[k], runs[k].folder(study_folder), metrics, options, patient=True, progress=progress))
        return outcome
    workers: dict[Connection, tuple[BaseProcess, int | None]] = {}
    held: list[int] = []  # runs of other processes; checked again, with waiting, when no other run is left

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
            with contextlib.suppress(ConnectionError):  # a dead worker is noticed at the next `recv`
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
                        with contextlib.suppress(LevelfieldError):  # the failure is reported in any case
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
                    if data_is_own_code(runs[event.run].spec):  # user code ran in this process
                        dismiss(pipe)
                        if agenda.waiting or held:
                            hire()
                    else:
                        assign(pipe)
            for pipe in [pipe for pipe, (_, doing) in workers.items() if doing is None]:
                assign(pipe)  # the runs it waited for may be finished now
    finally:
        processes.stop([process for process, _ in workers.values()])
    return outcome


def _work(pipe: Connection) -> None:
    """Main function of a worker: receive runs, execute them, report results."""

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
        except ConnectionError:  # the parent was killed; a later command continues the run
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
    """Execute one run under its lock. A failure is written to the run's folder and returned, never raised."""
    try:
        with locked(folder / "lock", wait=patient) as mine:
            if not mine:
                return Event("busy", number)
            for left in folder.glob(".*.tmp"):  # with the lock held, a partial file belongs to a dead process
                left.unlink(missing_ok=True)
            if not is_finished(folder, run.spec, metrics):
                progress.on_event(Event("start", number))
                execute(run.spec, folder, metrics, options=options, progress=progress.of_run(number))
                (folder / FAILED).unlink(missing_ok=True)
            return Event("done", number)
    except Exception as error:  # no error may stop the other runs; it is reported
        try:
            write_text(folder / FAILED, traceback.format_exc())
        except LevelfieldError as unwritable:
            return Event("failed", number, f"{error} ({unwritable})")
        return Event(
            "failed", number, str(error) if isinstance(error, LevelfieldError) else f"{type(error).__name__}: {error}"
        )
