"""The executor that gives every run to Ray as a task with its resources.

A run that is lost with its node or its process is given out again and continues from its last checkpoint. The task
streams its events, so a lost one is noticed at once, and no other process is needed for messages.

A study has one driver on a cluster, and a run has one command on a file system. The driver, not the node, holds the
lock of a run: locks of a file system need not hold between machines.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from levelfield.distributed.ray_connection import LOCAL, address_of, connected
from levelfield.errors import BadInput, LevelfieldError
from levelfield.files.reading import digest
from levelfield.files.writing import locked
from levelfield.studies.execution.cluster import nodes
from levelfield.studies.execution.cluster.resources import Demands
from levelfield.studies.execution.cluster.task import UNREACHABLE, Parcel, pack, unpack, work_on
from levelfield.studies.execution.events import Event
from levelfield.studies.execution.executor import Work
from levelfield.studies.runs.spec import needed_folder
from levelfield.studies.specification.choices import Data

MAX_CRASHES, MAX_LOST_NODES = 4, 25  # of one run in a row, without progress between them: then it has failed
POLL_SECONDS = 0.5  # interval at which runs that another command executes are checked
PATIENCE = 20.0  # seconds until the claim of a killed driver is gone


@contextmanager
def on_ray(address: str, *, jobs: int, threads: int) -> Iterator[OnRay]:
    """An executor on the Ray at `address` (see `address_of`); a local one has `jobs` times `threads` cores."""
    address = address_of(address)
    with connected(address, cpus=jobs * threads) as ray, ExitStack() as claims:
        local = address == LOCAL
        yield OnRay(ray, local, jobs + 1 if local else None, claims=claims)


@dataclass
class OnRay:
    """Gives runs to a connected Ray. local: it is this machine alone, so no node is asked.

    most: runs that Ray has at a time. It takes waiting tasks in any order, and the last runs should not be the longest
    ones. None: all, because a cluster that can grow counts the waiting tasks.
    claims: keeps the claims of studies between calls, as the rounds of a search need; None: each call has its own.
    """

    ray: Any
    local: bool = False
    most: int | None = None
    shared: bool | None = None
    claims: ExitStack | None = None
    _claimed: set[Path] = field(default_factory=set)
    _sees_folder: dict[tuple[Path, Data], bool] = field(default_factory=dict)
    _memory: dict[str, int] = field(default_factory=dict)

    def execute(self, work: Work) -> None:
        folder = work.study_folder.absolute()
        with ExitStack() as stack:
            mark = stack.enter_context(nodes.marked(folder))
            if not self.local and folder not in self._claimed:
                (self.claims or stack).enter_context(claimed_study(self.ray, folder))
                self._claimed |= {folder} if self.claims is not None else set()
            shared = self._check_nodes(work, mark)
            unfinished = [work.runs[k] for k in work.agenda.waiting]
            demands = Demands(work.options, self._memory)
            demands.check(unfinished, nodes.nodes_of(self.ray))
            _Dispatch(self.ray, work, mark, shared, demands, self.most or len(work.runs)).execute_all()

    def _check_nodes(self, work: Work, mark: nodes.Mark) -> bool:
        """Refuse nodes that cannot do the runs; returns whether all nodes see the study's folder."""
        if self.local:
            return self.shared is not False
        folder, seen = mark.path.parent, True
        for data in dict.fromkeys(work.runs[k].spec.data for k in work.agenda.waiting):
            if (folder, data) not in self._sees_folder:
                answers = nodes.survey(self.ray, data, mark, work.options.device, work.options.trust)
                self._sees_folder[folder, data] = all(state.sees_folder for state in nodes.ready(answers))
            seen = seen and self._sees_folder[folder, data]
        return seen if self.shared is None else self.shared


@dataclass
class _Attempt:
    """A run that a node executes. crashes, nodes: losses since the last progress; reached: the last step so far."""

    number: int
    lock: ExitStack
    crashes: int = 0
    nodes: int = 0
    reached: int = -1


@dataclass
class _Dispatch:
    """The runs of one plan, each given out to one task at a time."""

    ray: Any
    work: Work
    mark: nodes.Mark
    shared: bool
    demands: Demands
    most: int
    active: dict[Any, _Attempt] = field(default_factory=dict)
    held: list[int] = field(default_factory=list)  # runs of other commands

    def execute_all(self) -> None:
        """Give out runs until all are settled; end the active ones after Ctrl-C."""
        polled = 0.0
        try:
            while self.active or self.held or self.work.agenda.waiting:
                while len(self.active) < self.most and (number := self.work.agenda.next()) is not None:
                    if not self._take(number):
                        self.held.append(number)
                        self.work.progress.on_event(Event("busy", number))
                if self.held and time.monotonic() - polled > POLL_SECONDS:
                    polled = time.monotonic()
                    self.held = [number for number in self.held if not self._take(number)]
                if self.active:
                    ready, _ = self.ray.wait(list(self.active), num_returns=1, timeout=POLL_SECONDS, fetch_local=False)
                    for task in ready:
                        self._receive(task)
                elif self.held:
                    time.sleep(POLL_SECONDS)
        finally:
            for task, attempt in self.active.items():
                self.ray.cancel(task, force=True)
                attempt.lock.close()

    def _take(self, number: int) -> bool:
        """Give out a run that is not finished; returns False if another command executes it."""
        lock = claim_run(self.work.folder(number))
        if lock is None:
            return False
        if self.work.is_finished(number):  # by that command
            lock.close()
            self.work.settle(Event("done", number))
        else:
            self._give(_Attempt(number, lock))
        return True

    def _give(self, attempt: _Attempt) -> None:
        """Give a run to Ray."""
        task = self.work.task(attempt.number)
        spec, folder = task.spec, task.folder.absolute()
        wanted = self.demands.of(spec, nodes.nodes_of(self.ray), times=2**attempt.crashes)
        in_place = self.shared or spec.joined
        if not self.shared and spec.joined:  # it only reads embeddings, which are here
            node = self.ray.get_runtime_context().get_node_id()
            wanted |= {"num_cpus": 0, "memory": 0, "scheduling_strategy": nodes.pinned(node)}
        # Ray shows a task only its own GPU
        options = replace(task.options, device=task.options.device.partition(":")[0])
        task = replace(task, folder=folder, options=options)
        state, needed = None, []
        if not in_place:
            state = self.ray.put(pack(folder)) if folder.exists() else None
            for source in (needed_folder(folder, need) for need in spec.dependencies):
                needed.append(self.ray.put((str(Path(*source.parts[-2:])), pack(source))))
        remote = self.ray.remote(num_returns="streaming", max_retries=0)(work_on).options(**wanted)
        mark = self.mark if in_place else None
        self.active[remote.remote(attempt.number, task, Path.cwd(), mark, state, *needed)] = attempt

    def _receive(self, task: Any) -> None:
        """Take the next message of a task."""
        errors, attempt = self.ray.exceptions, self.active[task]
        try:
            message = self.ray.get(next(task))
            if isinstance(message, Parcel):
                unpack(message, self.work.folder(attempt.number))
            else:
                self._on_event(task, attempt, message)
        except StopIteration:
            self._restart(task, attempt, "its task ended without a result", node=False)
        except errors.RayTaskError as error:
            self._end(task, attempt)
            self.work.lose(attempt.number, f"{type(error.cause).__name__}: {error.cause}")
        except errors.RayError as error:
            node = isinstance(error, errors.NodeDiedError | errors.ObjectLostError)
            self._restart(task, attempt, _reason(errors, error), node=node)
        except LevelfieldError as error:  # the folder cannot be written here
            self.ray.cancel(task, force=True)
            self._end(task, attempt)
            self.work.lose(attempt.number, str(error))

    def _on_event(self, task: Any, attempt: _Attempt, event: Event) -> None:
        if event.kind == UNREACHABLE:  # a node that joined later
            self.shared = False
            del self.active[task]
            self._give(attempt)
        elif event.kind in ("done", "failed"):
            self._end(task, attempt)
            self.work.settle(event)
        else:
            if event.kind == "progress" and event.text == "training" and event.done > attempt.reached:
                attempt.reached, attempt.crashes, attempt.nodes = event.done, 0, 0
            self.work.progress.on_event(event)

    def _restart(self, task: Any, attempt: _Attempt, reason: str, *, node: bool) -> None:
        """Give a lost run out again, unless it is lost again and again. node: whether its node was lost."""
        attempt.nodes, attempt.crashes = attempt.nodes + node, attempt.crashes + (not node)
        if attempt.crashes >= MAX_CRASHES or attempt.nodes >= MAX_LOST_NODES:
            self._end(task, attempt)
            times = attempt.crashes + attempt.nodes
            self.work.lose(attempt.number, f"{reason}; it was started {times} times without getting further")
            return
        del self.active[task]
        self.work.progress.on_event(Event("lost", attempt.number, reason))
        self._give(attempt)

    def _end(self, task: Any, attempt: _Attempt) -> None:
        del self.active[task]
        attempt.lock.close()


class Claim:
    """An actor whose name is the claim. It ends with its driver."""


@contextmanager
def claimed_study(ray: Any, folder: Path) -> Iterator[None]:
    """Hold the claim of a study on a cluster; raises if another command holds it."""
    name = f"study {digest(os.path.realpath(folder), size=12)}"
    node = nodes.pinned(ray.get_runtime_context().get_node_id())
    claim = ray.remote(Claim).options(
        name=name, namespace="levelfield", num_cpus=0, max_restarts=-1, scheduling_strategy=node
    )
    until = time.monotonic() + PATIENCE
    while True:
        try:
            holder = claim.remote()
            break
        except ValueError as error:  # the name is taken
            if time.monotonic() > until:
                raise BadInput(
                    f"Another command on this cluster is executing the study in {folder}. Wait for its end, or choose "
                    "another --out."
                ) from error
            time.sleep(0.5)
    try:
        yield
    finally:
        ray.kill(holder)


def claim_run(folder: Path) -> ExitStack | None:
    """The lock of a run, held until it is closed; None if another command on this file system has it."""
    lock = ExitStack()
    try:
        mine = lock.enter_context(locked(folder / "lock", wait=False))
    except OSError:  # a file system without locks: the claim of the study is enough
        mine = True
    if mine:
        return lock
    lock.close()
    return None


def _reason(errors: Any, error: Exception) -> str:
    """Why a run was lost."""
    if isinstance(error, errors.OutOfMemoryError):
        return "its node ran out of memory"
    if isinstance(error, errors.NodeDiedError | errors.ObjectLostError):
        return "its node was lost"
    if isinstance(error, errors.WorkerCrashedError):
        return "its process was killed, often due to lack of memory"
    return f"{type(error).__name__}: {nodes.first_line(error)}"
