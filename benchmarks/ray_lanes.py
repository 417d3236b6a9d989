"""Lanes of Ray: its overhead over worker processes, two workers against one, and nodes killed at random moments.

    python benchmarks/ray_lanes.py            # all lanes (about 15 minutes on 2 idle cores)
    python benchmarks/ray_lanes.py --quick    # a small study instead of the demo

`benchmarks/scale.py` can call `lanes`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from levelfield.studies import PlannedRun, Study, parse_study, prepare, read_study
from levelfield.studies.execution.cluster.on_ray import OnRay, on_ray
from levelfield.studies.execution.events import Event, RunsProgress
from levelfield.studies.execution.workers import run_all
from levelfield.studies.runs.run import Options
from levelfield.training import Pace

OVERHEAD, TWO = 1.15, 1.6  # targets: at most, at least
KILLS = 20
TINY = {"backbone": "test_resnet", "weights": "random", "cut": "frozen", "image": 32, "dim": 8, "warmup": 0}


@dataclass
class Watch(RunsProgress):
    """When each run started and ended, and which were lost."""

    began: float = field(default_factory=time.perf_counter)
    started: dict[int, float] = field(default_factory=dict)
    ended: dict[int, float] = field(default_factory=dict)
    lost: list[float] = field(default_factory=list)
    heard: Callable[[Event], None] | None = None

    def on_event(self, event: Event) -> None:
        now = time.perf_counter() - self.began
        if event.kind == "start":
            self.started[event.run] = now
        elif event.kind in ("done", "failed"):
            self.ended[event.run] = now
        elif event.kind == "lost":
            self.lost.append(now)
        if self.heard is not None:
            self.heard(event)

    @property
    def run_seconds(self) -> float:
        return median(self.ended[run] - self.started[run] for run in self.started)


def photos(folder: Path, *, classes: int = 12, each: int = 8, side: int = 40) -> Path:
    """Drawn images, one sub-folder per class."""
    from PIL import Image

    random = np.random.default_rng(0)
    for label in range(classes):
        (folder / f"class{label:02d}").mkdir(parents=True)
        pattern = random.integers(0, 256, size=(4, 4, 3))
        for number in range(each):
            pixels = np.clip(pattern + random.normal(0, 40, size=pattern.shape), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).resize((side, side)).save(folder / f"class{label:02d}" / f"{number}.png")
    return folder


def tiny(home: Path, methods: list[Any], *, seeds: int, **conditions: Any) -> Study:
    """A small study on drawn images."""
    data = home / "photos"
    content = {
        "name": "tiny",
        "data": str(data if data.exists() else photos(data)),
        "methods": methods,
        "conditions": {**TINY, "steps": 60, "batch": "6x4", **conditions},
        "seeds": seeds,
    }
    return parse_study(content)


def timed(runs: list[PlannedRun], study: Study, *, jobs: int, ray: bool, warm: bool = False) -> float:
    """Seconds of all runs in a new folder, with the start of the executor. warm: without it."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        if not ray:
            outcome = run_all(runs, Path(folder), study.metrics, jobs=jobs, options=Options())
            assert not outcome.failed, outcome.failed
            return time.perf_counter() - began
        with on_ray("local", jobs=jobs, threads=study.conditions.threads) as executor:
            if warm:
                run_all(runs[:jobs], Path(folder) / "warm", study.metrics, jobs=1, options=Options(), executor=executor)
                began = time.perf_counter()
            outcome = run_all(runs, Path(folder) / "all", study.metrics, jobs=1, options=Options(), executor=executor)
            assert not outcome.failed, outcome.failed
            return time.perf_counter() - began


def overhead(study: Study) -> float:
    """Seconds with Ray, divided by those with two worker processes; features are stored before."""
    runs = prepare(study)
    timed(runs[:2], study, jobs=2, ray=False)
    first = timed(runs, study, jobs=2, ray=False)
    second = timed(runs, study, jobs=2, ray=True)
    return second / first


def two_workers(study: Study) -> float:
    """How many times as fast two Ray workers are as one; both are warm."""
    runs = prepare(study)
    return timed(runs, study, jobs=1, ray=True, warm=True) / timed(runs, study, jobs=2, ray=True, warm=True)


@contextmanager
def three_nodes(count: int = 2) -> Iterator[tuple[Any, list[Any]]]:
    """A cluster on this machine: a head for the driver, and nodes with one core each."""
    import ray
    from ray.cluster_utils import Cluster

    room = {"memory": 4 * 1024**3, "object_store_memory": 200 * 1024**2}
    cluster = Cluster(initialize_head=True, head_node_args={**room, "num_cpus": 0, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=1, **room) for _ in range(count)]
        ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
        yield cluster, nodes
    finally:
        ray.shutdown()
        cluster.shutdown()


def killed_nodes(home: Path, kills: int = KILLS, *, shared: bool | None = None, seed: int = 0) -> int:
    """Kill nodes at random moments of a study; the number of kills after which it has the bits of a quiet one."""
    import ray

    study = tiny(home, ["margin", "normalized_softmax", "triplet"], seeds=2, cut="last-1", steps=150)
    runs, often = prepare(study), Options(pace=Pace(save_every_steps=10))
    quiet = run_all(runs, home / "quiet", study.metrics, jobs=2, options=often)
    assert not quiet.failed, quiet.failed
    random, done = np.random.default_rng(seed), 0
    with three_nodes() as (cluster, nodes):
        moment = 0.0

        def heard(event: Event) -> None:
            nonlocal done, moment
            if done < kills and event.kind == "progress" and time.perf_counter() > moment:
                cluster.remove_node(nodes[done % 2], allow_graceful=False)
                nodes[done % 2] = cluster.add_node(num_cpus=1, memory=4 * 1024**3, wait=False)
                done, moment = done + 1, time.perf_counter() + random.uniform(1, 8)

        attempt = 0
        while done < kills:
            folder = home / f"struck{attempt}"
            outcome = run_all(
                runs,
                folder,
                study.metrics,
                jobs=1,
                options=often,
                progress=Watch(heard=heard),
                executor=OnRay(ray, shared=shared),
            )
            assert not outcome.failed, outcome.failed
            for run in runs:
                for name in ("model.safetensors", "embeddings.npy", "log.jsonl"):
                    same = (run.folder(folder) / name).read_bytes() == (run.folder(home / "quiet") / name).read_bytes()
                    assert same, f"{run.title}: {name} has other bits"
            attempt += 1
    return done


def lanes(*, quick: bool = False) -> list[tuple[str, float, str, float]]:
    """Name, measured value, "at most" or "at least", and target of each lane."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        small = tiny(home, ["margin", "normalized_softmax", "triplet", "contrastive"], seeds=4, cut="last-1", steps=100)
        study = small if quick else read_study("demo")
        equal = tiny(home, ["margin"], seeds=8, cut="last-1", steps=300)
        return [
            ("Ray / two worker processes", overhead(study), "at most", OVERHEAD),
            ("two Ray workers against one", two_workers(equal), "at least", TWO),
            ("nodes killed, same bits (shared folder)", killed_nodes(home / "a", 2 if quick else KILLS), "at least", 2),
            (
                "nodes killed, same bits (sent back)",
                killed_nodes(home / "b", 2 if quick else KILLS, shared=False),
                "at least",
                2,
            ),
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small studies, two kills")
    for name, value, word, target in lanes(quick=parser.parse_args().quick):
        good = value <= target if word == "at most" else value >= target
        print(f"{name}: {value:.2f} ({word} {target:g}: {'ok' if good else 'MISSED'})", flush=True)


if __name__ == "__main__":
    main()
