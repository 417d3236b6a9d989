"""Train one run in several processes, which torchrun's elastic agent starts and watches, or which torchrun started.

The first process trains and answers like that of user code (`own_process`); the others only take part in the training.
If one process ends, all end, and the next command continues the run from its checkpoint.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from levelfield.distributed import processes
from levelfield.distributed.processes import torchrun_rank
from levelfield.distributed.ranks import current, joined
from levelfield.embedder.devices import VISIBLE
from levelfield.errors import BadSpecification, CommandEnded, LostProcess
from levelfield.files.folders import scratch_folder
from levelfield.files.writing import locked, write_text
from levelfield.progress import Progress
from levelfield.studies.runs.custom_code import data_is_custom_code, names_custom_code
from levelfield.studies.runs.folder.files import FAILED
from levelfield.studies.runs.inputs import RunInputs
from levelfield.studies.runs.own_process import (
    LOCK,
    failure_of,
    inputs_of,
    say,
    train_and_answer,
    trained_apart,
)
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.runs.training import Task, Trained, TrainedHere, take_part, train_here
from levelfield.trust import as_trusted

LOSS = 2.0  # seconds until a process that lost another one ends: the agent reports only the first, and ends the rest


def trained_together(
    task: Task, inputs: RunInputs, progress: Progress, *, tested: bool
) -> AbstractContextManager[Trained]:
    """Like `train_here`, in `conditions.processes` processes: new ones, or those that torchrun started."""
    spec, ranks = task.spec, current()
    if ranks.size == 1:
        return trained_apart(task, progress, tested=tested, work=_watch)
    if ranks.size != spec.conditions.processes:
        raise BadSpecification(
            f"torchrun started {ranks.size} processes, but the run has processes: {spec.conditions.processes}. Use "
            f"--nproc-per-node {spec.conditions.processes}, or leave the condition out."
        )
    send(task)
    try:
        return nullcontext(train_here(task, inputs, progress, tested=tested, ranks=ranks))
    except Exception as error:  # the other processes are in the middle of a step: the group is of no further use
        write_text(task.folder / FAILED, traceback.format_exc())
        raise CommandEnded(
            f"{error} The command ends with its first failed run; `--processes {ranks.size}` instead of torchrun would "
            "continue with the others."
        ) from error


def send(task: Task | None) -> None:
    """Give the other processes of torchrun their next run; None: there is no more."""
    from torch import distributed

    distributed.broadcast_object_list([task], src=0)


@contextmanager
def leading(runs: list[PlannedRun], device: str) -> Iterator[None]:
    """Context in which this process, torchrun's first, executes runs together with the others."""
    for run in runs:
        if names_custom_code(run.spec) or data_is_custom_code(run.spec):
            raise BadSpecification(
                f"'{run.label}' uses code of your own, which trains in processes of its own: use "
                f"--processes {run.spec.conditions.processes} instead of torchrun."
            )
    with joined(device):
        yield
        send(None)


def following(device: str) -> None:
    """Take part in the runs that the first process of torchrun sends, until there is no more."""
    from torch import distributed

    with joined(device) as ranks:
        while True:
            received: list[Task | None] = [None]
            distributed.broadcast_object_list(received, src=0)
            task = received[0]
            if task is None:
                return
            with as_trusted(task.options.trust):
                take_part(task, inputs_of(task), ranks)


def _watch(pipe: Connection, task: Task, tested: bool) -> None:
    """Main function of the agent's process: start the ranks, end all if one ends, report the first error."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.disable()  # the agent's: errors are reported below
    method = processes.context().get_start_method()
    with scratch_folder(Path(tempfile.gettempdir()), "levelfield") as scratch:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=task.spec.conditions.processes,
            run_id=task.spec.identity,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            local_addr="localhost",
            max_restarts=0,  # an error of the method would only repeat itself
            start_method=method if method == "forkserver" else "spawn",
            logs_specs=DefaultLogsSpecs(log_dir=str(scratch)),
        )
        try:
            elastic_launch(config, _rank)(pipe, scratch, os.environ.get(VISIBLE), task, tested)
        except ChildFailedError as error:
            with suppress(ConnectionError):
                say(pipe, "failed", **_first_failure(scratch, error))
        except SignalException:  # the parent needs no more answers, or was stopped
            pass


def _rank(pipe: Connection, scratch: Path, gpus: str | None, task: Task, tested: bool) -> None:
    """Main function of a rank. gpus: those of the worker process, which a fork server does not know."""
    if gpus is not None:
        os.environ[VISIBLE] = gpus
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent handles it
    processes.end_with_parent()

    def train(progress: Progress) -> TrainedHere:
        with joined(task.options.device) as ranks:
            return train_here(task, inputs_of(task), progress, tested=tested, ranks=ranks)

    rank, _ = torchrun_rank()
    try:
        with as_trusted(task.options.trust):
            if rank == 0:
                with locked(task.folder / LOCK):
                    train_and_answer(pipe, train)
            else:
                pipe.close()
                with joined(task.options.device) as ranks:
                    take_part(task, inputs_of(task), ranks)
    except (EOFError, ConnectionError):  # the parent is gone
        return
    except BaseException as error:  # user code may raise anything, including SystemExit
        failure = {**failure_of(error), "at": time.time(), "lost": isinstance(error, LostProcess)}
        write_text(scratch / f"{rank}.failed", json.dumps(failure))
        if failure["lost"]:
            time.sleep(LOSS)
        raise SystemExit(1) from error


def _first_failure(scratch: Path, error: Any) -> dict[str, Any]:
    """The first error of a rank that was not a consequence of another rank's end; else how the first rank ended."""
    failures = [json.loads(file.read_text(encoding="utf-8")) for file in scratch.glob("*.failed")]
    own = sorted((one for one in failures if not one["lost"]), key=lambda one: float(one["at"]))
    if own:
        return {key: own[0][key] for key in ("error", "text", "trace")}
    rank, failure = error.get_first_failure()
    text = (
        f"One of the processes of the run failed: {processes.end_of(failure.exitcode)} (rank {rank}). All were ended. "
        "Run the same command again to continue from the last checkpoint."
    )
    return {"error": "RunFailed", "text": text, "trace": ""}
