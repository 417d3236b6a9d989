"""Train user code in a new process that ends with its run.

That process has no test images. It writes the model, reports its counts, and refines test rows on request. Its
messages are plain data, never objects, so none of its code runs in this process.
"""

from __future__ import annotations

import io
import json
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np
import torch

from levelfield import errors
from levelfield.distributed import processes
from levelfield.errors import LevelfieldError, RunFailed
from levelfield.files.writing import locked
from levelfield.progress import SELDOM, CallbackProgress, Progress
from levelfield.studies.runs.inputs import RunInputs, inputs_for
from levelfield.studies.runs.training import Task, TrainedHere, TrainingFacts, train_here
from levelfield.trust import as_trusted

LOCK = "lock.own"


class TrainedApart:
    """A method trained by another process, which does on request what only its code can do."""

    def __init__(self, process: BaseProcess, pipe: Connection, progress: Progress) -> None:
        self._process, self._pipe, self._progress = process, pipe, progress
        self.facts = self._facts(self._answer())

    def refined(self, rows: np.ndarray, queries: np.ndarray | None) -> np.ndarray:
        return self._ask("refined", rows, queries)

    def headed(self, features: np.ndarray) -> np.ndarray:
        return self._ask("headed", features)

    def _ask(self, what: str, *arguments: Any) -> np.ndarray:
        with suppress(ConnectionError):  # the answer reports the failure
            self._pipe.send((what, arguments))
        answer = self._answer()
        try:
            rows: np.ndarray = np.load(io.BytesIO(answer), allow_pickle=False)
        except ValueError as error:
            raise RunFailed(f"The user code of the method did not return rows of numbers: {error}") from error
        return rows

    def _facts(self, answer: bytes) -> TrainingFacts:
        try:
            return TrainingFacts.of(json.loads(answer))
        except (ValueError, KeyError, TypeError) as error:
            raise RunFailed(f"The process that trained the user code sent an invalid report: {error}") from error

    def _answer(self) -> bytes:
        """The next message other than progress. Raises if the other process failed."""
        while True:
            try:
                message = json.loads(self._pipe.recv_bytes())
                if message["kind"] == "answer":
                    return self._pipe.recv_bytes()
                if message["kind"] == "failed":
                    raise _failure(message)
                self._progress.report(str(message["text"]), int(message["done"]), int(message["total"]))
            except (EOFError, ConnectionError) as error:
                self._process.join()
                raise RunFailed(processes.end_of(self._process.exitcode)) from error


@contextmanager
def trained_apart(
    task: Task, progress: Progress, *, tested: bool, work: Callable[..., None] | None = None
) -> Iterator[TrainedApart]:
    """Like `train_here`, in a new process that lives until the block ends. work: its main function, if another one."""
    process, pipe = processes.start(work or _work, task, tested)
    try:
        yield TrainedApart(process, pipe, progress)
    finally:
        pipe.close()
        processes.stop([process])


def _failure(message: dict[str, Any]) -> LevelfieldError:
    """The error that ended the other process, with its traceback as the cause."""
    kind = getattr(errors, str(message["error"]), RunFailed)
    kind = kind if isinstance(kind, type) and issubclass(kind, LevelfieldError) else RunFailed
    failure: LevelfieldError = kind(str(message["text"]))
    failure.__cause__ = _Elsewhere(str(message["trace"]))
    return failure


class _Elsewhere(Exception):
    """The traceback of another process, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _work(pipe: Connection, task: Task, tested: bool) -> None:
    """Main function of the process: train, write the model, answer requests, exit."""

    def train(progress: Progress) -> TrainedHere:
        return train_here(task, inputs_of(task), progress, tested=tested)

    try:
        # locked: the process of an earlier attempt, whose worker was killed, may still be ending
        with as_trusted(task.options.trust), locked(task.folder / LOCK):
            train_and_answer(pipe, train)
    except (EOFError, ConnectionError):  # the parent is gone
        pass
    except BaseException as error:  # user code may raise anything, including SystemExit
        with suppress(ConnectionError):
            say(pipe, "failed", **failure_of(error))
    os._exit(0)  # skip threads and exit handlers of user code


def train_and_answer(pipe: Connection, train: Callable[[Progress], TrainedHere]) -> None:
    """Train, report the facts, and answer requests until the parent closes its end (EOFError)."""

    def answer(content: bytes) -> None:
        say(pipe, "answer")
        pipe.send_bytes(content)

    def report(text: str, done: int, total: int) -> None:
        say(pipe, "progress", text=text, done=done, total=total)

    trained = train(CallbackProgress(report, pause=SELDOM))
    answer(json.dumps(trained.facts.as_data(), default=str).encode())
    while True:
        what, arguments = pipe.recv()
        answer(_as_bytes(getattr(trained, what)(*arguments)))


def say(pipe: Connection, kind: str, **more: Any) -> None:
    """Send a message to the parent."""
    pipe.send_bytes(json.dumps({"kind": kind, **more}, default=str).encode())


def failure_of(error: BaseException) -> dict[str, Any]:
    """The error of this process, as plain data."""
    return {"error": type(error).__name__, "text": _message(error), "trace": traceback.format_exc()}


def inputs_of(task: Task) -> RunInputs:
    """The inputs of a training process: without test images, unless the conditions monitor them."""
    spec, options = task.spec, task.options
    torch.set_num_threads(spec.conditions.threads)
    inputs = inputs_for(spec, options.cache_folder, options.device)
    if spec.conditions.monitor != "test":
        inputs = inputs.without_test()
    return inputs


def _message(error: BaseException) -> str:
    if isinstance(error, LevelfieldError):
        return str(error)
    if isinstance(error, SystemExit):
        return f"its code ended the process: sys.exit({'' if error.code is None else repr(error.code)})"
    return f"{type(error).__name__}: {error}"


def _as_bytes(rows: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, np.asarray(rows), allow_pickle=False)
    return content.getvalue()
