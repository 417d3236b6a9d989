"""Executors of this machine: this process, or worker processes that execute runs one by one.

A run that crashes is reported and does not stop the others; a dead worker is replaced. Two `compare` commands on one
study share the work: the process that holds the lock of a run executes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from levelfield.data.decoders import decoders_per_job
from levelfield.distributed import processes
from levelfield.embedder.devices import environment_of
from levelfield.errors import CommandEnded
from levelfield.progress import Progress
from levelfield.studies.execution.corrupted_runs import record_all
from levelfield.studies.execution.events import SILENT_RUNS, Event, RunsProgress
from levelfield.studies.execution.executor import Agenda, Executor, Outcome, Work, do_one
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.spec import PlannedRun

__all__ = ["Agenda", "InThisProcess", "Outcome", "WorkerProcesses", "do_one", "run_all"]


def run_all(
    runs: list[PlannedRun],
    study_folder: Path,
    metrics: tuple[str, ...],
    *,
    jobs: int,
    options: Options,
    progress: RunsProgress = SILENT_RUNS,
    executor: Executor | None = None,
) -> Outcome:
    """Execute all runs; returns when every run is finished or failed.

    executor: by default `jobs` worker processes, or this process if `jobs` is 0.
    """
    if options.workers is None:
        together = max(jobs, 1) * max((run.spec.conditions.processes for run in runs), default=1)
        options = replace(options, workers=decoders_per_job(together) if executor is None else 1)
    work = Work.of(runs, study_folder, metrics, options, progress)
    if not work.unfinished:
        return work.outcome
    if executor is None:
        executor = InThisProcess() if jobs == 0 else WorkerProcesses(jobs)
    executor.execute(work)
    return work.outcome


class InThisProcess:
    """Runs one after another, in this process."""

    def execute(self, work: Work) -> None:
        while (k := work.agenda.next()) is not None:
            folder, progress = work.folder(k), work.progress
            work.settle(do_one(k, work.runs[k], folder, work.metrics, work.options, patient=True, progress=progress))

    def record(
        self, folders: Sequence[Path], names: Sequence[str], metrics: Sequence[str], progress: Mapping[Path, Progress]
    ) -> dict[Path, str]:
        return record_all(folders, names, metrics, jobs=0, progress=progress)


@dataclass(frozen=True)
class WorkerProcesses:
    """Worker processes, each with one run at a time and, on a machine with several GPUs, with GPUs of its own."""

    jobs: int = 1

    def record(
        self, folders: Sequence[Path], names: Sequence[str], metrics: Sequence[str], progress: Mapping[Path, Progress]
    ) -> dict[Path, str]:
        return record_all(folders, names, metrics, jobs=self.jobs, progress=progress)

    def execute(self, work: Work) -> None:
        runs, agenda = work.runs, work.agenda
        workers: dict[Connection, tuple[BaseProcess, int | None]] = {}
        slots: dict[Connection, int] = {}  # numbers of the workers, which choose their GPUs
        each = max(runs[k].spec.conditions.processes for k in work.unfinished)
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
                    pipe.send((k, runs[k], work.folder(k), work.metrics, work.options, patient))
            elif not agenda.waiting:
                dismiss(pipe)

        def hire() -> None:
            slot = min(set(range(len(workers) + 1)) - {slots[pipe] for pipe in workers})
            process, ours = processes.start(_work, environment=environment_of(slot, work.options.device, each))
            workers[ours], slots[ours] = (process, None), slot
            assign(ours)

        try:
            for _ in range(min(max(self.jobs, 1), len(work.unfinished))):
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
                            work.lose(doing, processes.end_of(process.exitcode))
                        if agenda.waiting or held:
                            hire()
                        continue
                    if event.kind == "busy":
                        held.append(event.run)
                    if event.kind in ("done", "failed"):
                        work.settle(event)
                    else:
                        work.progress.on_event(event)
                    if event.kind in ("done", "failed", "busy"):
                        assign(pipe)
                for pipe in [pipe for pipe, (_, doing) in workers.items() if doing is None]:
                    assign(pipe)  # the runs it waited for may be finished now
        finally:
            processes.stop([process for process, _ in workers.values()])


def _work(pipe: Connection) -> None:
    """Main function of a worker: receive runs, execute them, report results."""

    progress = _Sent(pipe)
    with contextlib.suppress(EOFError, ConnectionError, CommandEnded):
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
        except ConnectionError as error:  # it was killed; a later command continues the run
            raise CommandEnded("The parent process is gone.") from error
