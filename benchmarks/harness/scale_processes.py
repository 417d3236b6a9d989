"""One run over several processes, batches in pieces and divided classes: speed and memory against the undivided."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn

from harness.figures import Figure
from harness.interleaved import Sample, between, clocks, interleave, ratio, typical
from levelfield import batching, methods, objectives
from levelfield.distributed.ranks import ALONE, Ranks, current
from levelfield.embedder import Embedder, Head, Trunk, backbones, start_random
from levelfield.methods import Group
from levelfield.objectives import ShardedClasses
from levelfield.randomness import stream
from levelfield.training import Conditions, Divided, Observer, Pace, train
from levelfield.training.feed import Feed, StoredRows
from levelfield.training.optimisers import build
from levelfield.training.peak import Peak

NETWORK, SIDE, DIM, EACH = "tf_efficientnet_lite0", 64, 128, 4


class Images:
    """Random images in memory."""

    def __init__(self, count: int) -> None:
        self.tensor = torch.randn(count, 3, SIDE, SIDE, generator=stream(0, "images"))

    def __len__(self) -> int:
        return len(self.tensor)

    def __getitem__(self, positions: np.ndarray) -> tuple[Tensor, ...]:
        return (self.tensor[torch.from_numpy(positions)],)


class Loop:
    """levelfield's loop with a tuned trunk, as one of `ranks`."""

    def __init__(self, ranks: Ranks, batch: int, accumulate: int = 1, *, objective: str = "multi_similarity") -> None:
        self.ranks = ranks
        self.conditions = Conditions(
            backbone=NETWORK,
            weights="random",
            cut="tuned",
            image=SIDE,
            dim=DIM,
            batch=f"{batch // EACH}x{EACH}",
            accumulate=accumulate,
            processes=ranks.size,
        )
        trunk = Trunk(backbones.create(NETWORK, weights="random"), cut="tuned", image=SIDE)
        head = Head(trunk.width, DIM)
        start_random(head, stream(0, "head"))
        self.embedder = Embedder(trunk, head)
        labels = np.arange(batch) // EACH
        self.method = methods.create(objective, num_classes=batch // EACH, dim=DIM)
        groups = [Group("trunk", [p for p in trunk.parameters() if p.requires_grad], lr=1e-4, warm=False)]
        groups += [Group("head", list(head.parameters())), *self.method.groups()]
        self.optimisers = build(groups, self.conditions)
        planner = batching.create("spc", labels, batch_size=batch, samples_per_class=EACH, batches_per_epoch=10)
        self.feed = Feed(StoredRows([Images(batch)], seed=0), planner, labels, ranks=ranks)

    def slice(self, steps: int) -> Sample:
        """One of `steps`; neither the first step of a call, which prepares, nor the checkpoint after the last."""
        ticks = self.run(steps + 2)
        seconds = (ticks[steps] - ticks[0]) / steps
        return Sample(seconds, seconds)

    def run(self, steps: int) -> list[float]:
        """The time after each step."""
        ticks: list[float] = []

        class Clock:
            def stage(self, text: str, total: int) -> Any:
                return self

            def reach(self, done: int) -> None:
                ticks.append(time.perf_counter())

        with tempfile.TemporaryDirectory() as folder:
            conditions = self.conditions.model_copy(update={"steps": steps})
            how: dict[str, Any] = {"seed": 0, "folder": Path(folder), "pace": Pace(), "ranks": self.ranks}
            observer = Observer(progress=Clock())  # type: ignore[arg-type]
            train(self.embedder, self.method, self.feed, self.optimisers, conditions, observer=observer, **how)
        return ticks


class Rows:
    """An objective on rows that the processes have in equal shares, or one process has as a whole."""

    def __init__(self, ranks: Ranks, batch: int) -> None:
        rows = torch.randn(batch, DIM, generator=stream(0, "rows"))
        self.rows, self.labels = rows[ranks.share(batch)], torch.arange(batch) // EACH
        self.objective = objectives.create("multi_similarity")
        self.sizes = ranks.sizes(batch)
        self.divided = Divided(nn.Identity(), ranks=ranks) if ranks.size > 1 else None

    def slice(self, steps: int) -> Sample:
        began = 0.0
        for step in range(steps + 1):
            began = time.perf_counter() if step == 1 else began
            rows = self.rows.clone().requires_grad_()
            if self.divided is None:
                self.objective(rows, self.labels).backward()
                continue
            self.divided.begin(self.sizes)  # as the loop does
            self.divided.backward(self.objective(self.divided(rows), self.labels))
        seconds = (time.perf_counter() - began) / steps
        return Sample(seconds, seconds)


@contextmanager
def crew(size: int, make: Callable[[Ranks], Any]) -> Iterator[Callable[[int], Sample]]:
    """`size` processes with what `make(ranks)` returns; the function runs one slice in all of them."""
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        pipes = [fork.Pipe() for _ in range(size)]
        started = [
            fork.Process(target=_live, args=(Ranks(rank, size), Path(folder) / "store", pipe, make), daemon=True)
            for rank, (_, pipe) in enumerate(pipes)
        ]
        for process in started:
            process.start()

        def slice_of(steps: int) -> Sample:
            for ours, _ in pipes:
                ours.send(steps)
            answers = [ours.recv() for ours, _ in pipes]  # of all: a slice ends with the last
            return answers[0]

        try:
            yield slice_of
        finally:
            for process in started:
                process.kill()
                process.join()


def _live(ranks: Ranks, store: Path, pipe: Connection, make: Callable[[Ranks], Any]) -> None:
    torch.set_num_threads(1)
    if ranks.size > 1:
        shared = distributed.FileStore(str(store), ranks.size)
        distributed.init_process_group("gloo", store=shared, rank=ranks.rank, world_size=ranks.size)
        ranks = current()
    lane = make(ranks)
    while True:
        pipe.send(lane.slice(pipe.recv()))


def _compared(lanes: dict[str, Callable[[], Sample]], rounds: int) -> tuple[float, dict[str, float]]:
    """The first lane against the second, and the milliseconds of a step of each."""
    samples = interleave(lanes, rounds)
    first, second = samples
    milliseconds = {f"{name}_ms": 1000 * typical(taken) for name, taken in samples.items()}
    return ratio(samples[first], samples[second]), milliseconds


def one_run(quick: bool) -> Iterator[Figure]:
    """Two processes of one run on two cores against one process."""
    batch, steps, rounds = (16, 1, 1) if quick else (128, 3, 8)
    with crew(1, partial(Loop, batch=batch)) as one, crew(2, partial(Loop, batch=batch)) as two:
        speed, facts = _compared({"one": lambda: one(steps), "two": lambda: two(steps)}, rounds)
    yield Figure(
        "processes", f"two processes, batch {batch}, {NETWORK} tuned", "one", speed, 1.5, False, 1.8, facts=facts
    )


def gathering(quick: bool) -> Iterator[Figure]:
    """Gathering the rows of two processes and the objective of the whole batch against the objective alone: of one
    process, and of two at once, which compete for caches and memory as the gathering ones do."""
    for batch in (64,) if quick else (256, 1024, 4096):
        steps, rounds = (2, 1) if quick else (20 if batch < 4096 else 5, 10)
        whole = partial(_whole, batch=batch)
        with crew(2, partial(Rows, batch=batch)) as ours, crew(1, whole) as one, crew(2, whole) as two:
            lanes = {"gathered": ours, "one": one, "two": two}
            samples = interleave({name: partial(lane, steps) for name, lane in lanes.items()}, rounds)
        facts = {f"{name}_ms": 1000 * typical(taken) for name, taken in samples.items()}
        for name, peer in (("one", "objective in one process"), ("two", "objective in two processes at once")):
            cost = ratio(samples["gathered"], samples[name])
            yield Figure("gather", f"gather and objective, batch {batch:,}", peer, cost, 1.1, True, facts=facts)


def _whole(ranks: Ranks, batch: int) -> Rows:
    return Rows(ALONE, batch)


def accumulation(quick: bool) -> Iterator[Figure]:
    """A step in two passes over four pieces against the undivided step."""
    batch, steps, rounds = (16, 1, 1) if quick else (128, 3, 8)
    in_pieces, whole = Loop(ALONE, batch, 4), Loop(ALONE, batch)
    lanes = {"pieces": lambda: in_pieces.slice(steps), "whole": lambda: whole.slice(steps)}
    cost, facts = _compared(lanes, rounds)
    yield Figure(
        "accumulate", f"two passes, batch {batch} in 4 pieces", "one pass", cost, 1.45, True, 1.35, facts=facts
    )


def memory(quick: bool) -> Iterator[Figure]:
    """Peak memory of a large batch in pieces against a batch of an ordinary size, each in its own process."""
    large, pieces, small = (128, 16, 64) if quick else (4096, 32, 256)
    found = {}
    for name, batch, count in (("pieces", large, pieces), ("whole", small, 1)):
        with crew(1, partial(_Grown, batch=batch, pieces=count)) as grown:
            found[name] = grown(1).wall
    facts = {f"{name}_bytes": value for name, value in found.items()}
    what = f"batch {large:,} in {pieces} pieces"
    yield Figure("memory", what, f"batch {small}", found["pieces"] / found["whole"], 1.0, True, facts=facts)


class _Grown:
    """Bytes that one step needs beyond those in use before it, the images of the batch included."""

    def __init__(self, ranks: Ranks, batch: int, pieces: int) -> None:
        self.ranks, self.batch, self.pieces = ranks, batch, pieces

    def slice(self, steps: int) -> Sample:
        peak = Peak()
        before = peak.bytes or 0
        Loop(self.ranks, self.batch, self.pieces, objective="contrastive").run(steps)
        grown = float((peak.bytes or 0) - before)
        return Sample(grown, grown)


Step = Callable[[], object]


def million_classes(quick: bool) -> Iterator[Figure]:
    """A step of cosface with divided classes: peak memory against the undivided objective, time against the bare matrix
    products of its scores and gradients. Both are measured at full size, each in its own process."""
    classes, batch, rounds = (5_000, 16, 1) if quick else (1_000_000, 128, 5)
    sizes: dict[str, Any] = {"classes": classes, "batch": batch}
    divided = partial(_loss_step, divided=True, **sizes)
    makes = {"one": (1, divided), "two": (2, divided), "undivided": (1, partial(_loss_step, divided=False, **sizes))}
    grown = {}
    for name, (size, make) in makes.items():
        with crew(size, lambda ranks, make=make: _Peaked(make(ranks))) as step:  # type: ignore[misc]
            grown[name] = step(1).wall
    what = f"{classes:,} classes, batch {batch}"
    facts = {f"{name}_bytes": value for name, value in grown.items()}
    scores = {"scores_bytes": float(4 * classes * batch)}  # one matrix of rows and classes, for comparison
    for name, told in (("one", "one process"), ("two", "each of two processes")):
        value = grown[name] / grown["undivided"]
        yield Figure("classes", f"memory, {what}, {told}", "undivided", value, 1.0, True, facts=facts | scores)
    for name, told in (("one", "one process"), ("two", "two processes")):
        size, make = makes[name]
        with (
            crew(size, lambda ranks, make=make: _Timed(make(ranks))) as ours,  # type: ignore[misc]
            crew(1, lambda ranks: _Timed(_bare_step(ranks, **sizes))) as bare,
        ):
            cost, facts = _compared({name: lambda: ours(1), "bare": lambda: bare(1)}, rounds)
        yield Figure("classes", f"time, {what}, {told}", "bare products", cost, None, True, facts=facts)


def _loss_step(ranks: Ranks, classes: int, batch: int, *, divided: bool) -> Step:
    shape: dict[str, Any] = {"num_classes": classes, "dim": DIM}
    objective = ShardedClasses("cosface", ranks=ranks, **shape) if divided else objectives.create("cosface", **shape)
    rows = torch.randn(batch, DIM, generator=stream(0, "rows"))
    labels = torch.randint(classes, (batch,), generator=stream(0, "labels"))

    def step() -> None:
        objective.zero_grad(set_to_none=True)
        objective(rows.clone().requires_grad_(), labels).backward()

    return step


def _bare_step(ranks: Ranks, classes: int, batch: int) -> Step:
    """The scores, and the products of their gradient with both factors, into memory that is there."""
    rows, vectors = (torch.randn(count, DIM, generator=stream(0, "rows")) for count in (batch, classes))
    scores, of_rows, of_vectors = torch.zeros(batch, classes), torch.zeros_like(rows), torch.zeros_like(vectors)

    def step() -> None:
        torch.mm(rows, vectors.T, out=scores)
        torch.mm(scores, vectors, out=of_rows)
        torch.mm(scores.T, rows, out=of_vectors)

    return step


class _Timed:
    """Seconds of a step."""

    def __init__(self, step: Step) -> None:
        self.step = step

    def slice(self, steps: int) -> Sample:
        before = clocks()
        for _ in range(steps):
            self.step()
        return between(before, clocks(), steps)


class _Peaked:
    """Bytes that a step needs beyond those in use before it, the gradients included."""

    def __init__(self, step: Step) -> None:
        self.step = step

    def slice(self, steps: int) -> Sample:
        peak = Peak()
        before = peak.bytes or 0
        self.step()
        grown = float((peak.bytes or 0) - before)
        return Sample(grown, grown)
