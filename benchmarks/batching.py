"""Speed of batch construction: one core, CPU time, interleaved measurements.

    python benchmarks/batching.py [--only frd] [--quick] [--set KEY=VALUE]

Embedding-aware batchings against straightforward ones that choose the same batches (see straightforward.py); SPC
against a training step of the demo. Prints a table and writes results/batching.json next to this file.
"""

from __future__ import annotations

from harness import one_thread  # noqa: F401  isort: skip  (before torch and numpy)
import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness.figures import Figure, save, table
from harness.interleaved import Sample, between, clocks, interleave, ratio, typical
from harness.straightforward import StraightD2, StraightDDM, StraightFRD, StraightGC
from rich.console import Console

from levelfield.batching import (
    Batching,
    D2Coreset,
    DistanceMatching,
    FrechetMatching,
    GreedyCoreset,
    RandomWithPair,
    SamplesPerClass,
)

HERE = Path(__file__).parent
DIMS = (128, 512)
BATCH = 112  # Roth et al. 2020
CUB = np.arange(5864) % 100  # images and classes of the training half
SOP = np.repeat(np.arange(11318), np.resize([2, 3, 4, 5, 6, 7, 8, 9, 2, 6, 6], 11318))[:59551]


@dataclass(frozen=True)
class Contest:
    """A batching against the straightforward one: required speedup for each of DIMS."""

    name: str
    what: str
    ours: type[Batching]
    peer: type[Batching]
    targets: tuple[float, float]
    settings: dict[str, Any]
    batches: int = 4  # in a slice


CONTESTS = (
    Contest("frd", "batch", FrechetMatching, StraightFRD, (3.5, 50), {}, batches=1),
    Contest("ddm", "batch", DistanceMatching, StraightDDM, (2, 2), {}),
    Contest("ddm", "batch, shared pool", DistanceMatching, StraightDDM, (8, 8), {"shared": True}, batches=52),
    Contest("greedy_coreset", "batch, pool", GreedyCoreset, StraightGC, (4, 2.5), {}),
    Contest("greedy_coreset", "batch, all data", GreedyCoreset, StraightGC, (40, 12), {"pool": "all"}, batches=1),
    Contest("d2_coreset", "batch", D2Coreset, StraightD2, (2, 2), {}, batches=1),
)
PARTS = (*dict.fromkeys(contest.name for contest in CONTESTS), "spc", "spc_r")


@dataclass(frozen=True)
class Benchmark:
    """Measurements and their repetitions. `changes`: settings of the study whose training step is measured."""

    quick: bool
    changes: Sequence[str]

    @property
    def rounds(self) -> int:
        return 2 if self.quick else 7

    def contest(self, contest: Contest) -> Iterator[Figure]:
        """Plan the same epochs with both; the plans must be equal."""
        labels = CUB[:600] if self.quick else CUB
        for dim, target in zip((8, 16) if self.quick else DIMS, contest.targets, strict=True):
            memory = embeddings(labels, dim)
            common = {"batch_size": 12 if self.quick else BATCH, "pool": 60 if self.quick else 512}
            batches = min(contest.batches, 4) if self.quick else contest.batches
            # the straightforward version computes everything per batch and cannot use a shared pool
            own = {**common, **contest.settings}
            other = {key: value for key, value in own.items() if key != "shared"}
            ours = contest.ours(labels, batches_per_epoch=batches, **own)
            peer = contest.peer(labels, batches_per_epoch=1 if "shared" in own else batches, **other)
            check_same_batches(contest, labels, memory, own)
            samples = interleave(
                {"ours": planning(ours, memory), "straightforward": planning(peer, memory)}, self.rounds
            )
            yield Figure(
                part=contest.name,
                what=f"{contest.what}, d = {dim}",
                peer="straightforward",
                value=ratio(samples["straightforward"], samples["ours"], clock="cpu"),
                target=target,
                at_most=False,
                facts=milliseconds(samples),
            )

    def spc(self) -> Iterator[Figure]:
        """A batch of SPC-2 against a training step of the demo, and an epoch as large as that of SOP."""
        from harness.lanes import Ours

        from levelfield.studies import parse_study, plan, read_study

        demo = read_study("demo", list(self.changes)).model_dump(mode="json")
        method = [entry for entry in demo["methods"] if entry["name"] == "contrastive"]
        step = Ours(plan(parse_study({**demo, "name": "speed", "methods": method}))[0].spec)
        lanes = {"batch": planning(step.batching, None), "step": partial(step.slice, 10 if self.quick else 100)}
        samples = interleave(lanes, self.rounds)
        yield Figure(
            part="spc",
            what=f"batch of {step.batching.batch_size}",
            peer="training step of the demo",
            value=ratio(samples["batch"], samples["step"], clock="cpu"),
            target=0.01,
            at_most=True,
            unit="%",
            facts=milliseconds(samples),
        )
        yield self.epoch_of_sop(SamplesPerClass(SOP, batch_size=BATCH), target=100)

    def spc_r(self) -> Iterator[Figure]:
        """An epoch as large as that of SOP."""
        yield self.epoch_of_sop(RandomWithPair(SOP, batch_size=BATCH), target=200)

    def epoch_of_sop(self, batching: Batching, target: float) -> Figure:
        """Planning time in milliseconds."""
        epochs = interleave({"epoch": planning(batching, None)}, self.rounds)["epoch"]
        return Figure(
            part=batching.name,
            what=f"epoch of SOP's size, {len(SOP):,} images",
            peer="-",
            value=1e3 * len(batching) * min(sample.cpu for sample in epochs),
            target=target,
            at_most=True,
            unit="ms",
        )


def embeddings(labels: np.ndarray, dim: int) -> np.ndarray:
    """Unit rows, clustered by class."""
    drawn = np.random.default_rng(0)
    rows = drawn.normal(size=(labels.max() + 1, dim))[labels] + drawn.normal(size=(len(labels), dim))
    unit: np.ndarray = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


def planning(batching: Batching, memory: np.ndarray | None) -> Callable[[], Sample]:
    """Plan a new epoch at each call; return the time per batch."""
    epoch = iter(range(1_000_000))

    def lane() -> Sample:
        before = clocks()
        batching.plan(next(epoch), memory)
        return between(before, clocks(), len(batching))

    return lane


def check_same_batches(contest: Contest, labels: np.ndarray, memory: np.ndarray, settings: dict[str, Any]) -> None:
    """Check that both choose the same two batches."""
    kinds = contest.ours, contest.peer
    if not np.array_equal(*(kind(labels, batches_per_epoch=2, **settings).plan(7, memory) for kind in kinds)):
        raise AssertionError(f"{contest.name}, {contest.what}: the straightforward batching chooses other batches.")


def milliseconds(samples: dict[str, list[Sample]]) -> dict[str, float]:
    facts = {f"{name}_ms": round(1e3 * typical(lane), 3) for name, lane in samples.items()}
    return facts | {f"{name}_cpu_ms": round(1e3 * min(one.cpu for one in lane), 3) for name, lane in samples.items()}


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small and few: whether it works, not how fast")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this batching; may be repeated")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the study of the step")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "batching.json", metavar="FILE")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    benchmark, console, figures = Benchmark(chosen.quick, chosen.set), Console(), []
    for name in chosen.only or PARTS:
        contests = [benchmark.contest(contest) for contest in CONTESTS if contest.name == name]
        found = contests or [getattr(benchmark, name)()]
        for figure in (figure for each in found for figure in each):
            figures.append(figure)
            console.print(f"{figure.part}: {figure.what}: {figure.shown[0]}", highlight=False)
    console.print(table(figures, "Speed of batch construction"))
    save(chosen.out, figures)
    return figures


if __name__ == "__main__":
    main()
