"""Speed and memory of every objective: forward and backward to the raw rows (and proxies), one core, CPU time.

    python benchmarks/objectives.py [--quick] [--only triplet] [--batch 512] [--no-pml] [--lane definition]

Each is interleaved with its bound (see targets.py), and with pytorch-metric-learning if that is installed and can run.
Rows of 512 numbers, float32, classes in random order. The lane "definition" compares each closed form with the
definition of the same objective at two usual sizes (median of the rounds; below 1.2 at one of them, it does not pay).
Prints a table and writes results/objectives.json next to this file; entries that were not measured this time are kept
there.
"""

from __future__ import annotations

from harness import one_thread  # noqa: F401  isort: skip  (before torch and numpy)
from harness import memory  # isort: skip  (before torch)
import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from harness import pml
from harness import targets as at
from harness.contests import CONTESTS, PROXY_CONTESTS, Contest, ProxyContest
from harness.figures import Figure, save, table
from harness.interleaved import (
    Sample,
    best,
    between,
    clocks,
    interleave,
    keep_freed_memory,
    ratio,
    take_turns,
)
from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional as F

from levelfield import objectives
from levelfield.objectives._inputs import LossInputs

HERE = Path(__file__).parent
DIM = 512


@dataclass(frozen=True)
class Size:
    """Amount of measurement: seconds per candidate, and rounds."""

    seconds: float
    least: int
    most: int


FULL = Size(seconds=2.0, least=3, most=400)
QUICK = Size(seconds=0.02, least=2, most=3)


@dataclass
class Benchmark:
    """Measures one contest after another; reports what is skipped and why."""

    size: Size
    batches: Sequence[int]
    classes: Sequence[int]
    with_pml: bool
    say: Callable[[str], None]

    def pairs(self, contest: Contest) -> Iterator[Figure]:
        for layout, bound in contest.sim.items():
            if layout.batch not in self.batches:
                continue
            rows, labels = batch_of(layout.batch, layout.per_class, contest.noise)
            ours = _ours(contest.objective, contest.settings, rows, labels, int(labels.max()) + 1)
            lanes = {"ours": ours, "sim": _sim(rows)}
            if layout.per_class == 4:
                lanes |= self._pml(contest, layout, rows, labels)
            taken = self._taken(lanes)
            yield _times(contest.name, str(layout), "sim", taken, bound)
            if "PML" in taken:
                yield _faster(contest.name, str(layout), taken, contest.faster[layout])
            must, good = at.MEMORY.get(layout, (None, None)) if bound else (None, None)
            matrices = memory.peak_bytes(ours) / (4 * layout.batch**2)
            yield Figure(contest.name, str(layout), "peak memory", matrices, must, True, good, "n x n")

    def proxies(self, contest: ProxyContest) -> Iterator[Figure]:
        for size in contest.sizes:
            if size.batch not in self.batches or size.classes not in self.classes:
                continue
            rows, labels = batch_of(size.batch, 4)
            labels = spread(labels, size.classes)
            vectors = size.classes * contest.centres
            ours = _ours(contest.objective, contest.settings, rows, labels, size.classes)
            lanes = {"ours": ours, "products": _products(rows, vectors)}
            lanes |= self._pml(contest, size, rows, labels, num_classes=size.classes, embedding_size=DIM)
            taken = self._taken(lanes)
            yield _times(contest.name, str(size), "products", taken, contest.products.get(size))
            if "PML" in taken:
                yield _faster(contest.name, str(size), taken, contest.faster[size])
            gradient, logits = vectors * DIM * 4e-6, vectors * size.batch * 4e-6
            must = gradient + logits + at.PROXY_MEMORY
            good = must if contest.logits else gradient + at.NO_LOGITS_MEMORY
            asked = (must, good) if contest.products.get(size) else (None, None)
            used = memory.peak_bytes(ours) / 1e6
            facts = {"gradient_mb": gradient, "logits_mb": logits}
            yield Figure(contest.name, str(size), "peak memory", used, asked[0], True, asked[1], "MB", facts)

    def definition(self, contest: Contest | ProxyContest) -> Iterator[Figure]:
        """Speedup of the closed form over the definition, where the objective uses a closed form."""
        for batch, dim in at.USUAL:
            for classes in at.USUAL_CLASSES if isinstance(contest, ProxyContest) else (batch // 4,):
                rows, labels = batch_of(batch, 4, dim=dim)
                labels = spread(labels, classes)
                objective = objectives.create(contest.objective, num_classes=classes, dim=dim, **contest.settings)
                draw = torch.Generator().manual_seed(0)
                if objective.quick(LossInputs(rows.detach(), labels, None, None, None, draw)) is None:
                    continue
                lanes = {"ours": _lane(objective, rows, labels, generator=draw)}
                lanes["definition"] = _lane(_ByDefinition(objective), rows, labels, generator=draw)
                slowest = max(lane().wall for lane in lanes.values())
                rounds = min(self.size.most, max(self.size.least, int(self.size.seconds / slowest)))
                taken = interleave(lanes, rounds=rounds)
                gain = ratio(taken["definition"], taken["ours"], clock="cpu")
                what = f"{at.Classes(classes, batch)}, {dim} dimensions"
                yield Figure(contest.name, what, "definition", gain, at.PAYS, False)

    def clustering(self) -> Iterator[Figure]:
        for (classes, per_class), (must, good) in at.STRUCTURED_CLUSTERING.items():
            rows, labels = batch_of(classes * per_class, per_class)
            taken = self._taken({"ours": _ours("structured_clustering", {}, rows, labels, classes)})
            what, value = f"{classes} x {per_class}", 1e3 * best(taken["ours"])
            yield Figure("structured_clustering", what, "-", value, must, True, good, "ms")

    def _taken(self, lanes: dict[str, Callable[[], Sample]]) -> dict[str, list[Sample]]:
        return take_turns(lanes, seconds=self.size.seconds, least=self.size.least, most=self.size.most)

    def _pml(
        self,
        contest: Contest | ProxyContest,
        size: at.Layout | at.Classes,
        rows: Tensor,
        labels: Tensor,
        **sizes: int,
    ) -> dict[str, Callable[[], Sample]]:
        """PML's lane, if requested and possible."""
        if not self.with_pml or contest.pml is None:
            return {}
        if size not in contest.faster:
            self.say(f"{contest.name}: {size}: PML is not run at this size")
            return {}
        try:
            lane = _lane(pml.loss(**contest.pml, **sizes), rows, labels)
            lane()
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and "memory" not in str(error):
                raise
            self.say(f"{contest.name}: {size}: PML is left out: {str(error).splitlines()[0]}")
            return {}
        return {"PML": lane}


def batch_of(batch: int, per_class: int, noise: float = at.YOUNG, *, dim: int = DIM) -> tuple[Tensor, Tensor]:
    """Raw rows around the centres of their classes, in random order; the labels are 0, 1, 2, ...

    noise: distance of rows from their centre, as a multiple of the distance of centres from their mean.
    """
    draw = torch.Generator().manual_seed(0)
    labels = (torch.arange(batch) // per_class)[torch.randperm(batch, generator=draw)]
    centres = torch.randn(batch // per_class + 1, dim, generator=draw)
    rows = centres[labels] + noise * torch.randn(batch, dim, generator=draw)
    return rows.requires_grad_(), labels


def spread(labels: Tensor, classes: int) -> Tensor:
    """The same batch with its classes at random among `classes`; if these are too few, some are merged."""
    places = torch.randperm(classes, generator=torch.Generator().manual_seed(0))
    return places[labels % classes]


def _ours(name: str, settings: Any, rows: Tensor, labels: Tensor, classes: int) -> Callable[[], Sample]:
    objective = objectives.create(name, num_classes=classes, dim=DIM, **settings)
    return _lane(objective, rows, labels, generator=torch.Generator().manual_seed(0))


class _ByDefinition(nn.Module):
    """An objective without its closed form."""

    def __init__(self, objective: objectives.Objective) -> None:
        super().__init__()
        self.objective = objective

    def forward(self, rows: Tensor, labels: Tensor, **more: Any) -> Tensor:
        return self.objective.total(self.objective.terms(rows, labels, **more))


def _lane(loss: nn.Module, rows: Tensor, labels: Tensor, **more: Any) -> Callable[[], Sample]:
    """Time forward and backward of a call; gradients are dropped outside the timing, as an optimiser would."""

    def once() -> Sample:
        before = clocks()
        loss(rows, labels, **more).backward()
        taken = between(before, clocks())
        rows.grad = None
        loss.zero_grad(set_to_none=True)
        return taken

    return once


def _sim(rows: Tensor) -> Callable[[], Sample]:
    slope = torch.randn(len(rows), len(rows), generator=torch.Generator().manual_seed(1))

    def once() -> Sample:
        before = clocks()
        unit = F.normalize(rows)
        (unit @ unit.T).backward(slope)
        taken = between(before, clocks())
        rows.grad = None
        return taken

    return once


def _products(rows: Tensor, vectors: int) -> Callable[[], Sample]:
    draw = torch.Generator().manual_seed(1)
    proxies = torch.randn(vectors, DIM, generator=draw, requires_grad=True)
    slope = torch.randn(len(rows), vectors, generator=draw)

    def once() -> Sample:
        before = clocks()
        (rows @ proxies.T).backward(slope)
        taken = between(before, clocks())
        rows.grad = proxies.grad = None
        return taken

    return once


def _times(part: str, what: str, peer: str, taken: dict[str, list[Sample]], bound: at.Bound | None) -> Figure:
    must, good = bound or (None, None)
    facts = {f"{name}_ms": 1e3 * best(samples) for name, samples in taken.items()}
    return Figure(part, what, peer, best(taken["ours"]) / best(taken[peer]), must, True, good, facts=facts)


def _faster(part: str, what: str, taken: dict[str, list[Sample]], bound: at.Bound | None) -> Figure:
    must, good = bound or (None, None)
    return Figure(part, what, "PML", best(taken["PML"]) / best(taken["ours"]), must, False, good)


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="batch 112 and 100 classes, few rounds: whether it works")
    parser.add_argument("--only", action="append", metavar="NAME", help="an objective; may be repeated")
    parser.add_argument("--batch", action="append", type=int, metavar="N", help="112, 512 or 2048; may be repeated")
    parser.add_argument("--classes", action="append", type=int, metavar="N", help="25, 100, 774, 11318 or 100000")
    parser.add_argument("--lane", choices=["bounds", "definition"], help="default: both")
    parser.add_argument("--no-pml", action="store_true", help="without pytorch-metric-learning")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: results/objectives.json; --quick: none")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    console = Console()

    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    with_pml = not chosen.no_pml and pml.installed()
    if not chosen.no_pml and not with_pml:
        say("Without PML: it is not installed (pip install pytorch-metric-learning==2.9.0).")
    benchmark = Benchmark(
        QUICK if chosen.quick else FULL,
        chosen.batch or ([112] if chosen.quick else [112, 512, 2048]),
        chosen.classes or ([100] if chosen.quick else [25, 100, 774, 11_318, 100_000]),
        with_pml,
        say,
    )
    out = chosen.out or (None if chosen.quick else HERE / "results" / "objectives.json")
    figures = []
    for name, measure in _chosen(benchmark, chosen.only, chosen.lane):
        if name not in objectives.names():
            say(f"{name}: left out: there is no such objective yet")
            continue
        for figure in measure():
            figures.append(figure)
            if out is not None:  # immediately: a long run may be interrupted
                save(out, [figure])
            say(f"{figure.part}: {figure.what}: {figure.peer}: {figure.shown[0]} {figure.verdict}")
    console.print(table(figures, "Speed of the objectives"))
    asked = [figure for figure in figures if figure.target is not None]
    good = sum(figure.verdict == "yes, good" for figure in asked)
    say(f"{sum(figure.reached for figure in asked)} of {len(asked)} targets reached, {good} of them well.")
    return figures


def _chosen(
    benchmark: Benchmark, only: Sequence[str] | None, lane: str | None
) -> Iterator[tuple[str, Callable[[], Iterator[Figure]]]]:
    """Name of the objective and a function that measures it, contest by contest."""
    for contest in (*CONTESTS, *PROXY_CONTESTS):
        if only and contest.objective not in only:
            continue
        if lane != "definition":
            bounds = benchmark.pairs if isinstance(contest, Contest) else benchmark.proxies
            yield contest.objective, partial(bounds, contest)  # type: ignore[arg-type]
        if lane != "bounds":
            yield contest.objective, partial(benchmark.definition, contest)
    if lane != "definition" and (not only or "structured_clustering" in only):
        yield "structured_clustering", benchmark.clustering


if __name__ == "__main__":
    keep_freed_memory()
    main()
