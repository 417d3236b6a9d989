"""A small world for tests: generated photos, short studies, and processes that start quickly.

Tests that kill processes need real ones. `processes()` returns a forkserver that has imported everything, so that a
process starts in milliseconds instead of the seconds that importing torch takes.
"""

from __future__ import annotations

import functools
import gc
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

import drawn_photos
from levelfield.cli import main
from levelfield.distributed import processes as levelfield_processes
from levelfield.embedder.trunk import backbones
from levelfield.studies import Leaderboard, PlannedRun, Study, gather, parse_study, resolve
from levelfield.studies.execution.events import SILENT_RUNS, Event, RunsProgress
from levelfield.studies.execution.executor import do_one
from levelfield.studies.execution.workers import Outcome, run_all
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.training import Task
from levelfield.training import Pace

torch.set_num_threads(1)  # a fork has no threads but its own and would wait for the others for ever
# read once: every process started here is a copy of one that has the weights (a Trunk copies the network it is given)
_create, _kept = backbones.create, functools.lru_cache(backbones.create)
backbones.create = lambda name, **how: (_create if ".py:" in name else _kept)(name, **how)  # files are edited
backbones.create("test_resnet", weights="random")
gc.freeze()  # nor is all that was imported searched for garbage again

NETWORK = {"backbone": "test_resnet", "weights": "random"}  # timm's smallest: what a study does is not the network's
SMALL = {**NETWORK, "cut": "frozen", "image": 32, "dim": 8, "steps": 4, "batch": "4x3", "warmup": 0}
make_photos = functools.partial(drawn_photos.make_photos, classes=8, name="class{:02d}")


def small_study(data: Path | str, methods: list[Any], *, overrides: tuple[str, ...] = (), **conditions: Any) -> Study:
    content = {
        "name": "small",
        "data": str(data),
        "methods": methods,
        "conditions": {**SMALL, **conditions},
        "seeds": 1,
        "metrics": ["recall@1", "map@r"],
    }
    return parse_study(content, overrides)


class Heard(RunsProgress):
    """Keeps every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: str) -> list[int]:
        """The runs to which that happened."""
        return [event.run for event in self.events if event.kind == kind]


def carry_out(
    study: Study, folder: Path, options: Options | None = None, *, progress: RunsProgress = SILENT_RUNS
) -> tuple[list[PlannedRun], Outcome]:
    """All runs of a study, one after another in this process."""
    options = options or Options()
    runs = resolve(study, options=options).runs
    outcome = run_all(runs, folder, study.metrics, jobs=0, options=options, progress=progress)
    return runs, outcome


def completed(
    study: Study, folder: Path, options: Options | None = None, *, progress: RunsProgress = SILENT_RUNS
) -> list[PlannedRun]:
    """All runs of a study; none may fail."""
    runs, outcome = carry_out(study, folder, options, progress=progress)
    assert not outcome.failed, outcome.failed
    return runs


def run_one(study: Study, folder: Path, options: Options | None = None) -> Path:
    """The folder of a study's only run, which may not fail."""
    [run] = completed(study, folder, options)
    return run.folder(folder)


def result(folder: Path) -> dict[str, Any]:
    """All of a finished run that must be equal: everything but the time and the memory it took."""
    metrics = json.loads((folder / "metrics.json").read_text())
    del metrics["checksum"]  # of the seconds, too
    for clock in ("seconds", "waiting", "planning", "peak_bytes"):
        del metrics["summary"][clock]
    files = [folder / f"{name}.safetensors" for name in ("model", "method")]
    files += [folder / name for name in ("embeddings.npy", "log.jsonl", "per_query.npz")]
    return {"metrics": metrics, **{file.name: file.read_bytes() for file in files if file.exists()}}


def told(folder: Path) -> dict[str, Any]:
    """What a run says about its training."""
    content: dict[str, Any] = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    return content


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]


def board_of(study: Study, runs: list[PlannedRun], folder: Path) -> Leaderboard:
    return gather(study.name, runs, folder, study.metrics, claims=study.claims)


@functools.cache
def processes() -> BaseContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*levelfield_processes.PRELOADED, "small_world"])
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), before]))
    forkserver.ensure_running()  # it looks for what it preloads where PYTHONPATH says, and nowhere else
    os.environ["PYTHONPATH"] = before
    return context


def command(arguments: list[str], log: Path, cache: Path, environment: dict[str, str] | None = None) -> None:
    """A `levelfield` command in a process of `processes()` and a group of its own; its own workers are forks of it.

    environment: variables that the server, which forks this process, may be too old to have.
    """
    os.setsid()
    os.environ.update(environment or {})
    os.environ["LEVELFIELD_CACHE"] = str(cache)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a forkserver's processes ignore it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # one that our own code started blocks it, too
    fork = multiprocessing.get_context("fork")
    levelfield_processes.context = lambda: fork  # type: ignore[assignment]
    main(arguments)


def wait_for(happened: Callable[[], bool], seconds: float = 90) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


Strike = tuple[str, str, int]


def one_run(run: PlannedRun, folder: Path, cache: Path, metrics: tuple[str, ...], strike: Strike | None) -> None:
    """One run that is saved every few steps. `strike`: it kills itself "before" or "after" the n-th file that matches
    a pattern gets its name, as in ("before", "checkpoint", 2). Its own processes are forks of it."""
    fork = multiprocessing.get_context("fork")
    levelfield_processes.context = lambda: fork  # type: ignore[assignment]
    if strike is not None:
        _strike_at(*strike)
    options = Options(cache_folder=cache, pace=Pace(log_every=3, save_every_steps=2))
    event = do_one(0, Task(run.spec, folder, metrics, options), patient=True, progress=SILENT_RUNS)
    os._exit(0 if event.kind == "done" else 1)


TRIAL_METRICS = ("recall@1", "map@r")


class Trial:
    """A run with a cache of its own, in processes that can be killed."""

    def __init__(self, run: PlannedRun, home: Path) -> None:
        self.run, self.home = run, home
        self.folder = home / "run"

    def begin(self, strike: Strike | None = None) -> BaseProcess:
        """Start it, and do not wait."""
        process = processes().Process(
            target=one_run, args=(self.run, self.folder, self.home / "cache", TRIAL_METRICS, strike)
        )
        process.start()
        return process

    def start(self, *, strike: Strike | None = None, kill_after: float | None = None) -> bool:
        """Whether it came to its end."""
        process = self.begin(strike)
        process.join(kill_after)
        if process.exitcode is None:
            process.kill()
            process.join()
        assert process.exitcode in (0, -9), (self.folder / "error.txt").read_text()
        return process.exitcode == 0

    def result(self) -> dict[str, Any]:
        return result(self.folder)


def _strike_at(moment: str, pattern: str, number: int) -> None:
    rename, seen = Path.replace, 0

    def replace(self: Path, target: Path) -> Path:
        nonlocal seen
        seen += Path(target).match(pattern)
        now = seen == number and Path(target).match(pattern)
        if now and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = rename(self, target)
        if now and moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    Path.replace = replace  # type: ignore[assignment,method-assign]
