"""The executor of this machine: this process, or worker processes that execute runs one by one.

A run that crashes is reported and does not stop the others; a dead worker is replaced. Two `compare` commands on one
study share the work: the process that holds the lock of a run executes it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import cast

from levelfield.data.decoders import decoders_per_job
from levelfield.distributed import processes
from levelfield.embedder.devices import environment_of
from levelfield.errors import CommandEnded
from levelfield.studies.execution.events import SILENT_RUNS, Event, RunsProgress
from levelfield.studies.execution.executor import Executor, Outcome, Work, do_one
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.spec import PlannedRun


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
    work = Work(runs, study_folder, metrics, options, progress)
    if not work.agenda.waiting:
        return work.outcome
    if executor is not None:
        executor.execute(work)
    elif jobs > 0:
        _Workers(work, jobs).execute_all()
    else:
        while (number := work.agenda.next()) is not None:
            work.settle(do_one(number, work.task(number), patient=True, progress=progress))
    return work.outcome


@dataclass
class _Worker:
    """A worker process. slot: chooses its GPUs; run: the run that it executes."""

    process: BaseProcess
    slot: int
    run: int | None = None


@dataclass
class _Workers:
    """The workers of one study, each with one run at a time and, on a machine with several GPUs, GPUs of its own.

    held: runs of other commands, for which a worker waits when nothing else is left.
    """

    work: Work
    jobs: int
    workers: dict[Connection, _Worker] = field(default_factory=dict)
    held: list[int] = field(default_factory=list)

    def execute_all(self) -> None:
        each = max(self.work.runs[k].spec.conditions.processes for k in self.work.agenda.waiting)
        try:
            while True:
                for pipe, worker in list(self.workers.items()):
                    if worker.run is None and not worker.process.is_alive():  # it died, as for lack of memory
                        del self.workers[pipe]
                idle = [pipe for pipe, worker in self.workers.items() if worker.run is None]
                while len(self.workers) - len(idle) < self.jobs:
                    number, patient = self.work.agenda.next(), False
                    if number is None and self.held:
                        number, patient = self.held.pop(0), True
                    if number is None:
                        break
                    self._give(idle.pop() if idle else self._start(each), number, patient)
                busy = [pipe for pipe, worker in self.workers.items() if worker.run is not None]
                if not busy or not (self.work.agenda.waiting or self.held):
                    self._end(idle)
                if not busy:
                    break
                for ready in wait(busy):
                    self._receive(cast(Connection, ready))
        finally:
            processes.stop([worker.process for worker in self.workers.values()])

    def _end(self, idle: list[Connection]) -> None:
        """End workers that get no more runs, to free their memory."""
        for pipe in idle:
            with contextlib.suppress(ConnectionError):
                pipe.send(None)
        for pipe in idle:
            self.workers[pipe].process.join()
            del self.workers[pipe]

    def _start(self, each: int) -> Connection:
        """Start a worker. each: processes of a run."""
        slot = min(set(range(len(self.workers) + 1)) - {worker.slot for worker in self.workers.values()})
        environment = environment_of(slot, self.work.options.device, each)
        process, pipe = processes.start(_work, environment=environment)
        self.workers[pipe] = _Worker(process, slot)
        return pipe

    def _give(self, pipe: Connection, number: int, patient: bool) -> None:
        """Send a run to a worker. patient: whether to wait for its lock."""
        self.workers[pipe].run = number
        with contextlib.suppress(ConnectionError):  # a dead worker is noticed at the next `recv`
            pipe.send((number, self.work.task(number), patient))

    def _receive(self, pipe: Connection) -> None:
        worker = self.workers[pipe]
        assert worker.run is not None
        try:
            event = pipe.recv()
        except (EOFError, ConnectionError):
            worker.process.join()
            del self.workers[pipe]
            self.work.lose(worker.run, processes.end_of(worker.process.exitcode))
            return
        if event.kind in ("done", "failed"):
            self.work.settle(event)
        else:
            self.work.progress.on_event(event)
        if event.kind == "busy":
            self.held.append(event.run)
        if event.kind in ("done", "failed", "busy"):
            worker.run = None


def _work(pipe: Connection) -> None:
    """Main function of a worker: receive runs, execute them, report results."""

    def send(event: Event) -> None:
        try:
            pipe.send(event)
        except ConnectionError as error:  # it was killed; a later command continues the run
            raise CommandEnded("The parent process is gone.") from error

    progress = RunsProgress(send)
    with contextlib.suppress(EOFError, ConnectionError, CommandEnded):
        while (assigned := pipe.recv()) is not None:
            number, task, patient = assigned
            send(do_one(number, task, patient=patient, progress=progress))
