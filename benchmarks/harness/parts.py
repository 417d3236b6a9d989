"""The parts of the training benchmark."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any

from harness.figures import Figure
from harness.interleaved import Sample, between, clocks, interleave, ratio, typical
from harness.jobs import timed
from harness.lanes import Bare, Ours, check_same_work, with_torchs_gradients
from levelfield.studies import Study, parse_study, plan
from levelfield.training import Pace, TrainingState
from levelfield.training.checkpoint import Checkpointer


@dataclass(frozen=True)
class Size:
    """Amount of measurement: rounds, steps per slice (by cost), and the study of part `jobs`.

    casts: how often the candidates are rebuilt. The memory addresses of their weights are random and change a step by
    some percent.
    """

    casts: int
    rounds: int
    head_steps: int
    trunk_steps: int
    image_steps: int
    study_steps: int
    study_runs: int
    study_repeats: int


FULL = Size(
    casts=4, rounds=6, head_steps=102, trunk_steps=10, image_steps=2, study_steps=3000, study_runs=8, study_repeats=1
)
QUICK = Size(
    casts=1, rounds=2, head_steps=20, trunk_steps=2, image_steps=1, study_steps=200, study_runs=4, study_repeats=1
)


class Parts:
    """The parts by name. Parts that need the same trained object share it."""

    def __init__(self, study: Study, size: Size) -> None:
        self.study, self.size = study, size
        self.ours = cache(self._ours)

    def all(self) -> dict[str, Callable[[], Iterator[Figure]]]:
        return {
            "loop": self.loop,
            "cached": self.cached,
            "gradients": self.gradients,
            "cache": self.against_no_cache,
            "jobs": self.jobs,
        }

    def loop(self) -> Iterator[Figure]:
        """The loop against a bare one. The checkpoint, every 20 seconds, is added proportionally."""
        for cut in ("frozen", "last-1"):
            samples = self._pooled(cut, lambda ours: {"bare": Bare(ours)})
            ours = self.ours(cut)
            share = _checkpoint_seconds(ours) / Pace().save_every_seconds
            yield Figure(
                part="loop",
                what=f"step, {cut}",
                peer="bare PyTorch loop",
                value=ratio(samples["ours"], samples["bare"]) + share,
                target=1.05,
                at_most=True,
                facts={**_milliseconds(samples), "checkpoint_share": share, **_computing(samples, "ours", "bare")},
            )

    def cached(self) -> Iterator[Figure]:
        """A run that opens the store and trains on it, against the trainable part on batches in memory."""
        for cut in ("frozen", "last-1", "last-2"):
            ours = self.ours(cut)
            ours.waiting.clear()
            samples = self._pooled(cut, lambda ours: {"alone": Bare(ours, gathered=True)})
            opened = interleave({"open": _opening(ours)}, self.size.rounds)["open"]
            whole = typical(samples["alone"]) * self.study.conditions.steps
            once = typical(opened) + _checkpoint_seconds(ours)
            yield Figure(
                part="cached",
                what=f"run of {self.study.conditions.steps} steps, {cut}",
                peer="its trainable part, batches in memory",
                value=ratio(samples["ours"], samples["alone"]) + once / whole,
                target=1.15,
                at_most=True,
                facts={
                    **_milliseconds(samples),
                    "open_ms": 1e3 * typical(opened),
                    "opening_and_checkpoint_share": once / whole,
                    **_computing(samples, "ours", "alone"),
                },
            )
            yield Figure(
                part="cached",
                what=f"waiting for data, {cut}",
                peer="time of the loop",
                value=median(ours.waiting),
                target=0.05,
                at_most=True,
                unit="%",
            )

    def gradients(self) -> Iterator[Figure]:
        """Speedup of a step by our weight gradient of depthwise convolutions; below 1.2 it would not pay."""
        for cut in ("last-1", "last-2"):
            bare = Bare(self.ours(cut), gathered=True)
            lanes = {
                "ours": partial(bare.slice, self.size.trunk_steps),
                "torch": partial(with_torchs_gradients(bare).slice, self.size.trunk_steps),
            }
            samples = interleave(lanes, self.size.rounds)
            yield Figure(
                part="gradients",
                what=f"step, {cut}",
                peer="torch's own gradients",
                value=ratio(samples["torch"], samples["ours"], clock="cpu"),
                target=1.2,
                at_most=False,
                facts=_milliseconds(samples),
            )

    def against_no_cache(self) -> Iterator[Figure]:
        """The same training with and without the store, with equal steps per epoch."""
        for cut, target in (("last-1", 4.0), ("last-2", 1.7)):
            stored, decoded = self.ours(cut), self.ours(cut, cached=False)
            steps = {"stored": self.size.trunk_steps, "decoded": self.size.image_steps}
            samples = interleave(
                {
                    "stored": partial(stored.slice, steps["stored"]),
                    "decoded": partial(decoded.slice, steps["decoded"]),
                },
                self.size.rounds,
            )
            yield Figure(
                part="cache",
                what=f"epoch, {cut}",
                peer="the same with cache: false",
                value=ratio(samples["decoded"], samples["stored"]),
                target=target,
                at_most=False,
                facts={**_milliseconds(samples), **_computing(samples, "decoded", "stored")},
            )

    def jobs(self) -> Iterator[Figure]:
        """A study of equal runs with one process and with two, interleaved."""
        content = self.study.model_dump(mode="json")
        content["conditions"]["steps"] = self.size.study_steps
        study = parse_study({**content, "seeds": self.size.study_runs, "metrics": ["recall@1"]})
        self.ours("frozen")  # cache features before timing
        taken = [(timed(study, 1), timed(study, 2)) for _ in range(self.size.study_repeats)]
        yield Figure(
            part="jobs",
            what=f"{self.size.study_runs} equal runs, --jobs 2",
            peer="--jobs 1",
            value=median(one / two for (one, _), (two, _) in taken),
            target=1.7,
            at_most=False,
            facts={
                "seconds_1": median(one for (one, _), _ in taken),
                "seconds_2": median(two for _, (two, _) in taken),
                "start_up_1": median(watch.start_up for (_, watch), _ in taken),
                "start_up_2": median(watch.start_up for _, (_, watch) in taken),
                "run_1": median(watch.run_seconds for (_, watch), _ in taken),
                "run_2": median(watch.run_seconds for _, (_, watch) in taken),
            },
        )

    def _pooled(self, cut: str, peers: Callable[[Ours], dict[str, Bare]]) -> dict[str, list[Sample]]:
        """Interleaved slices of our loop and its peers, with several casts."""
        pooled: dict[str, list[Sample]] = {}
        kept = []  # kept alive, so that the next cast has other addresses
        steps, ours = self._steps(cut), self.ours(cut)
        for number in range(self.size.casts):
            cast = ours if number == 0 else self._ours(cut)
            cast.waiting = ours.waiting
            kept += [cast, others := peers(cast)]
            for bare in others.values():
                check_same_work(cast, bare)
            lanes = {"ours": partial(cast.slice, steps)}
            lanes |= {name: partial(bare.slice, steps) for name, bare in others.items()}
            for name, samples in interleave(lanes, self.size.rounds).items():
                pooled.setdefault(name, []).extend(samples)
        return pooled

    def _ours(self, cut: str, cached: bool = True) -> Ours:
        content: dict[str, Any] = self.study.model_dump(mode="json")
        content["conditions"] |= {"cut": cut, "cache": cached}
        return Ours(plan(parse_study(content))[0].spec)

    def _steps(self, cut: str) -> int:
        return self.size.head_steps if cut == "frozen" else self.size.trunk_steps


def _opening(ours: Ours) -> Callable[[], Sample]:
    def opened() -> Sample:
        before = clocks()
        ours.open_source()
        return between(before, clocks())

    return opened


def _checkpoint_seconds(ours: Ours) -> float:
    state, taken = Checkpointer(ours.embedder, ours.setup.method, ours.setup.optimisers), []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            before = clocks()
            state.save(Path(folder) / "checkpoint", TrainingState(), ours.feed.batching.state_dict())
            taken.append(between(before, clocks()).wall)
    return median(taken)


def _milliseconds(samples: dict[str, list[Sample]]) -> dict[str, float]:
    return {f"{name}_ms": round(1e3 * typical(lane), 3) for name, lane in samples.items()}


def _computing(samples: dict[str, list[Sample]], ours: str, peer: str) -> dict[str, float]:
    """The same ratio in CPU time, which other processes disturb less."""
    return {"ratio_of_computing_time": ratio(samples[ours], samples[peer], clock="cpu")}
