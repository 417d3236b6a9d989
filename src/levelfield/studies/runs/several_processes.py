"""Execute one run in several processes: those of torchrun, or new ones. The first one does all that is not training.

If one process ends, all end, and the next command continues the run from its checkpoint.
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from torch import distributed

from levelfield.distributed import processes
from levelfield.distributed.ranks import Ranks, current, joined
from levelfield.errors import BadSpecification, CommandEnded, LevelfieldError, LostProcess, RunFailed
from levelfield.files.writing import locked, scratch_folder, write_text
from levelfield.progress import SELDOM, CallbackProgress, Progress
from levelfield.studies.runs.folder.files import FAILED
from levelfield.studies.runs.inputs import RunInputs
from levelfield.studies.runs.training import Task, Trained, take_part, train_run

LOCK = "lock.ranks"
LOSS_SECONDS = 2.0  # for the error of another process, after which a process has lost it


def train_together(task: Task, inputs: RunInputs, progress: Progress) -> Trained:
    """Like `train_run`, together with the other processes of this group."""
    spec, ranks = task.spec, current()
    if ranks.size != spec.conditions.processes:
        raise BadSpecification(
            f"torchrun started {ranks.size} processes, but the run has processes: {spec.conditions.processes}. Use "
            f"--nproc-per-node {spec.conditions.processes}, or leave the condition out."
        )
    _send(task)
    try:
        return train_run(task, inputs, progress, ranks=ranks)
    except Exception as error:  # the other processes are in the middle of a step: the group is of no further use
        if processes.torchrun_rank() == (0, 1):
            raise
        write_text(task.folder / FAILED, traceback.format_exc())
        raise CommandEnded(
            f"{error} The command ends with its first failed run; `--processes {ranks.size}` instead of torchrun would "
            "continue with the others."
        ) from error


@contextmanager
def leading(device: str, ranks: Ranks | None = None, store: Path | None = None) -> Iterator[None]:
    """Context in which this process executes runs together with those that call `following`."""
    with joined(device, ranks, store):
        yield
        _send(None)


def following(device: str, ranks: Ranks | None = None, store: Path | None = None) -> None:
    """Take part in the runs of the first process until there is no more."""
    with joined(device, ranks, store) as group:
        while (task := _send(None)) is not None:
            take_part(task, group)


def _send(task: Task | None) -> Task | None:
    """Give the next run of the first process to all, which return it; None: there is no more."""
    sent = [task]
    distributed.broadcast_object_list(sent, src=0)
    return sent[0]


def in_new_processes(task: Task, execute: Callable[[Task, Progress], None], progress: Progress) -> None:
    """Call `execute` in the first of `conditions.processes` new processes, which train the run together."""
    size = task.spec.conditions.processes
    workers: dict[Connection, tuple[int, BaseProcess]] = {}
    with scratch_folder(Path(tempfile.gettempdir()), "levelfield") as scratch:
        try:
            for rank in range(size):
                process, pipe = processes.start(_work, Ranks(rank, size), scratch / "store", task, execute)
                workers[pipe] = (rank, process)
            _wait_for(workers, progress)
        finally:
            processes.stop(process for _, process in workers.values())


def _wait_for(workers: dict[Connection, tuple[int, BaseProcess]], progress: Progress) -> None:
    """Wait until all processes have ended; raise the first error that is no consequence of another process's end."""
    active, lost = dict(workers), None
    while active:
        ready = wait(list(active), timeout=None if lost is None else LOSS_SECONDS)
        if not ready:
            break
        for pipe in ready:
            assert isinstance(pipe, Connection)
            try:
                message = pipe.recv()
            except (EOFError, ConnectionError) as error:
                rank, process = active.pop(pipe)
                process.join()
                if process.exitcode:
                    raise RunFailed(
                        f"One of the processes of the run failed: {processes.end_of(process.exitcode)} (rank {rank}). "
                        "All were ended. Run the same command again to continue from the last checkpoint."
                    ) from error
                continue
            if isinstance(message, LostProcess):
                lost = message
                del active[pipe]
            elif isinstance(message, Exception):
                raise message
            else:
                progress.report(*message)
    if lost is not None:
        raise lost


def _work(pipe: Connection, ranks: Ranks, store: Path, task: Task, execute: Callable[[Task, Progress], None]) -> None:
    """Main function of a process."""
    device = task.options.device
    try:
        if ranks.first:
            # the processes of an earlier attempt, whose worker was killed, may still be ending
            with locked(task.folder / LOCK), leading(device, ranks, store):
                execute(task, CallbackProgress(lambda *stage: pipe.send(stage), pause=SELDOM))
        else:
            following(device, ranks, store)
    except (EOFError, ConnectionError):  # the parent is gone
        return
    except (Exception, SystemExit) as error:
        # with its traceback as text: the class of a user's error need not exist in another process
        sent = (type(error) if isinstance(error, LevelfieldError) else RunFailed)(message_of(error))
        sent.add_note(traceback.format_exc())
        pipe.send(sent)


def message_of(error: BaseException) -> str:
    """What an error of a run says.

    >>> message_of(ValueError("no")), message_of(SystemExit(0))
    ('ValueError: no', 'its code ended the process: sys.exit(0)')
    """
    if isinstance(error, LevelfieldError):
        return str(error)
    if isinstance(error, SystemExit):
        return f"its code ended the process: sys.exit({'' if error.code is None else repr(error.code)})"
    return f"{type(error).__name__}: {error}"
