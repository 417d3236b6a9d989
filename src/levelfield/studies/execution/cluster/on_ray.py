"""The executor that gives every run to Ray as a task with its resources.

A run that is lost with its node or its process is given out again and continues from its last checkpoint. The task
streams what happens, so a lost one is noticed at once, and no other process has to be kept for messages.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from levelfield.distributed.ray_connection import LOCAL, address_of, connected
from levelfield.errors import LevelfieldError
from levelfield.progress import Progress
from levelfield.studies.execution.cluster import preloaded
from levelfield.studies.execution.cluster.claims import claim_run, claimed_study
from levelfield.studies.execution.cluster.corrupted import record_on
from levelfield.studies.execution.cluster.features import check_shippable, packed
from levelfield.studies.execution.cluster.nodes import Node, Question, marked, nodes_of, refuse_unready, survey
from levelfield.studies.execution.cluster.parcels import Parcel, pack, unpack
from levelfield.studies.execution.cluster.resources import Demands
from levelfield.studies.execution.cluster.task import UNREACHABLE, Order, work_on
from levelfield.studies.execution.corrupted_runs import record_all
from levelfield.studies.execution.events import Event
from levelfield.studies.execution.executor import Work
from levelfield.studies.runs.folder.store import is_finished
from levelfield.studies.runs.spec import needed_folder
from levelfield.studies.specification.choices import Data

CRASHES, NODES = 4, 25  # losses of one run in a row, without progress between them, after which it has failed
AGAIN = 0.5  # seconds between two looks at a run that another command does


@contextmanager
def on_ray(
    address: str, *, jobs: int, threads: int, shared: bool | None = None, ship_features: bool = False
) -> Iterator[OnRay]:
    """An executor on the Ray at `address` (see `address_of`); a local one has `jobs` times `threads` cores.

    shared: whether the nodes see the study's folder; None: ask them. ship_features: see `features`.
    """
    address = address_of(address)
    with connected(address, cpus=jobs * threads, modules=preloaded(threads)) as ray, ExitStack() as held:
        local = address == LOCAL
        yield OnRay(ray, local, jobs + 1 if local else None, shared=shared, ship_features=ship_features, held=held)


@dataclass
class OnRay:
    """Gives runs to a connected Ray. local: it is this machine alone, so nothing has to be asked.

    most: runs that Ray has at a time. It takes waiting tasks in any order, and the last runs should not be the longest
    ones. None: all, because a cluster that can grow counts the waiting tasks.
    held: keeps the claims of studies between calls, as the rounds of a search need them; None: each call has its own.
    """

    ray: Any
    local: bool = False
    most: int | None = None
    shared: bool | None = None
    ship_features: bool = False
    held: ExitStack | None = None
    _claimed: set[Path] = field(default_factory=set)
    _asked: dict[tuple[Path, Data], bool] = field(default_factory=dict)
    _memory: dict[str, int] = field(default_factory=dict)

    def execute(self, work: Work) -> None:
        folder = work.study_folder.absolute()
        with ExitStack() as stack:
            mark = stack.enter_context(marked(folder))
            if not self.local and folder not in self._claimed:
                (self.held or stack).enter_context(claimed_study(self.ray, folder))
                self._claimed |= {folder} if self.held is not None else set()
            shared = self._prepared(work, mark)
            left = [work.runs[k] for k in work.unfinished]
            dispatch = _Dispatch(self.ray, work, mark, shared, Demands(work.options, self._memory), self.most)
            dispatch.demands.check(left, nodes_of(self.ray))
            if self.ship_features:
                check_shippable(left, work.options)
                shipments = packed(work.runs, work.options, work.progress)
                dispatch.shipments = {digest: self.ray.put(one) for digest, one in shipments.items()}
            try:
                dispatch.all()
            finally:
                dispatch.cancel()

    def record(
        self, folders: Sequence[Path], names: Sequence[str], metrics: Sequence[str], progress: Mapping[Path, Progress]
    ) -> dict[Path, str]:
        """On the nodes, if they see the folders of the runs; else here."""
        if self.shared is False or not all(self._asked.values()):
            return record_all(folders, names, metrics, jobs=0, progress=progress)
        return record_on(self.ray, folders, names, metrics, progress)

    def _prepared(self, work: Work, mark: tuple[Path, str]) -> bool:
        """Ask every node for what the runs need; whether all of them see the study's folder."""
        if self.local:
            return self.shared is not False
        seen = True
        for data in dict.fromkeys(work.runs[k].spec.data for k in work.unfinished):
            known = (mark[0].parent, data)
            if known not in self._asked:
                question = Question(data, mark, work.options.device, work.options.trust, Path.cwd())
                answers = survey(self.ray, question)
                refuse_unready(answers, needs_data=not self.ship_features)
                self._asked[known] = all(one.state is not None and one.state.sees_folder for one in answers)
            seen = seen and self._asked[known]
        return seen if self.shared is None else self.shared


@dataclass
class _Attempt:
    """A run that a node does now. reached: how far it came in any attempt."""

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
    mark: tuple[Path, str]
    shared: bool
    demands: Demands
    most: int | None = None
    shipments: dict[str, Any] = field(default_factory=dict)  # Ray objects
    active: dict[Any, _Attempt] = field(default_factory=dict)
    held: list[int] = field(default_factory=list)  # runs of other commands
    _looked: float = 0.0

    def all(self) -> None:
        """Give out runs until all are settled."""
        while True:
            while self._has_room() and (number := self.work.agenda.next()) is not None:
                self._take(number)
            if self.held and time.monotonic() - self._looked > AGAIN:
                self._look_again()
            if self.active:
                ready, _ = self.ray.wait(list(self.active), num_returns=1, timeout=AGAIN, fetch_local=False)
                for task in ready:
                    self._hear(task)
            elif self.held:
                time.sleep(AGAIN)
            elif not self.work.agenda.waiting:
                return

    def _has_room(self) -> bool:
        return self.most is None or len(self.active) < self.most

    def cancel(self) -> None:
        """End all tasks, after Ctrl-C."""
        for task, attempt in self.active.items():
            self.ray.cancel(task, force=True)
            attempt.lock.close()

    def _take(self, number: int) -> None:
        lock = ExitStack()
        if not claim_run(self.work.folder(number), lock):
            lock.close()
            self.held.append(number)
            self.work.progress.on_event(Event("busy", number))
            return
        self._give(_Attempt(number, lock))

    def _look_again(self) -> None:
        """Take the runs whose command has ended, unless they are finished."""
        self._looked = time.monotonic()
        for number in list(self.held):
            lock, run = ExitStack(), self.work.runs[number]
            if claim_run(self.work.folder(number), lock):
                self.held.remove(number)
                if is_finished(self.work.folder(number), run.spec, self.work.metrics):
                    lock.close()
                    self.work.settle(Event("done", number))
                else:
                    self._give(_Attempt(number, lock))
            else:
                lock.close()

    def _give(self, attempt: _Attempt) -> None:
        """Give a run to Ray."""
        number, run = attempt.number, self.work.runs[attempt.number]
        folder, nodes = self.work.folder(number).absolute(), nodes_of(self.ray)
        wanted = self.demands.of(run).options(nodes, times=2**attempt.crashes)
        here = self.shared or run.spec.joined
        if not self.shared and run.spec.joined:
            wanted |= self._on_this_node(nodes)  # it only reads embeddings, which are here
        order = Order(
            number,
            run,
            folder,
            self.work.metrics,
            _plain(self.work.options),
            Path.cwd(),
            self.mark if here else None,
        )
        extra: list[Any] = [self.shipments.get(run.spec.data_digest), None]
        if not here:
            extra[1] = self._sent(pack(folder)) if folder.exists() else None
            for need in run.spec.needed:
                source = needed_folder(folder, need)
                extra.append(self._sent((str(Path(*source.parts[-2:])), pack(source))))
        task = self.ray.remote(num_returns="streaming", max_retries=0)(work_on)
        self.active[task.options(**wanted).remote(order, *extra)] = attempt

    def _sent(self, content: object) -> Any:
        return self.ray.put(content)

    def _on_this_node(self, nodes: list[Node]) -> dict[str, Any]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

        here = self.ray.get_runtime_context().get_node_id()
        return {"num_cpus": 0, "memory": 0, "scheduling_strategy": On(here, soft=False)}

    def _hear(self, task: Any) -> None:
        """Take the next message of a task."""
        errors, attempt = self.ray.exceptions, self.active[task]
        try:
            message = self.ray.get(next(task))
            if isinstance(message, Parcel):
                unpack(message, self.work.folder(attempt.number))
            else:
                self._heard(task, attempt, message)
        except StopIteration:
            self._lost(task, attempt, "its task ended without a result", node=False)
        except errors.RayTaskError as error:
            self._ended(task, attempt)
            self.work.lose(attempt.number, f"{type(error.cause).__name__}: {error.cause}")
        except errors.RayError as error:
            node = isinstance(error, errors.NodeDiedError | errors.ObjectLostError)
            self._lost(task, attempt, _reason(errors, error), node=node)
        except LevelfieldError as error:  # the folder cannot be written here
            self.ray.cancel(task, force=True)
            self._ended(task, attempt)
            self.work.lose(attempt.number, str(error))

    def _heard(self, task: Any, attempt: _Attempt, event: Event) -> None:
        if event.kind == UNREACHABLE:  # a node that joined later
            self.shared = False
            del self.active[task]
            self._give(attempt)
        elif event.kind in ("done", "failed"):
            self._ended(task, attempt)
            self.work.settle(event)
        else:
            if event.kind == "progress" and event.text == "training" and event.done > attempt.reached:
                attempt.reached, attempt.crashes, attempt.nodes = event.done, 0, 0
            self.work.progress.on_event(event)

    def _lost(self, task: Any, attempt: _Attempt, reason: str, *, node: bool) -> None:
        """Give a lost run out again, unless it is lost again and again."""
        attempt.nodes, attempt.crashes = attempt.nodes + node, attempt.crashes + (not node)
        if attempt.crashes >= CRASHES or attempt.nodes >= NODES:
            self._ended(task, attempt)
            times = attempt.crashes + attempt.nodes
            self.work.lose(attempt.number, f"{reason}; it was started {times} times without getting further")
            return
        del self.active[task]
        self.work.progress.on_event(Event("lost", attempt.number, reason))
        self._give(attempt)

    def _ended(self, task: Any, attempt: _Attempt) -> None:
        del self.active[task]
        attempt.lock.close()


def _plain(options: Any) -> Any:
    """The options as a node uses them: Ray shows a task only its own GPU."""
    return replace(options, device=options.device.partition(":")[0])


def _reason(errors: Any, error: Exception) -> str:
    """Why a run was lost."""
    if isinstance(error, errors.OutOfMemoryError):
        return "its node ran out of memory"
    if isinstance(error, errors.NodeDiedError | errors.ObjectLostError):
        return "its node was lost"
    if isinstance(error, errors.WorkerCrashedError):
        return "its process was killed, often due to lack of memory"
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
