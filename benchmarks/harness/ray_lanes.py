"""Ray: its overhead over worker processes, two workers against one, nodes killed at random moments, and a process that
Ray's memory monitor kills. `benchmarks/scale.py` measures them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import yaml

from harness.figures import Figure
from levelfield.studies import PlannedRun, Study, parse_study, read_study, resolve
from levelfield.studies.execution.cluster.on_ray import OnRay, on_ray
from levelfield.studies.execution.events import Event, RunsProgress
from levelfield.studies.execution.workers import run_all
from levelfield.studies.runs.run import Options
from levelfield.training import Pace

KILLS = 20  # of nodes, in each of the two ways of storage
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


def timed(runs: list[PlannedRun], study: Study, *, jobs: int, ray: bool) -> float:
    """Seconds of all runs in a new folder. ray: with a Ray that is running and has done some of them before."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        if not ray:
            outcome = run_all(runs, Path(folder), study.metrics, jobs=jobs, options=Options())
            assert not outcome.failed, outcome.failed
            return time.perf_counter() - began
        with on_ray("local", jobs=jobs, threads=study.conditions.threads) as executor:
            run_all(runs[:jobs], Path(folder) / "warm", study.metrics, jobs=1, options=Options(), executor=executor)
            began = time.perf_counter()
            outcome = run_all(runs, Path(folder) / "all", study.metrics, jobs=1, options=Options(), executor=executor)
            assert not outcome.failed, outcome.failed
            return time.perf_counter() - began


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


def assert_same_bits(runs: list[PlannedRun], folder: Path, quiet: Path) -> None:
    for run in runs:
        for name in ("model.safetensors", "embeddings.npy", "log.jsonl"):
            same = (run.folder(folder) / name).read_bytes() == (run.folder(quiet) / name).read_bytes()
            assert same, f"{run.title}: {name} has other bits"


def killed_nodes(home: Path, kills: int = KILLS, *, shared: bool | None = None, seed: int = 0) -> int:
    """Kill nodes at random moments of a study; the number of kills after which it has the bits of a quiet one."""
    import ray

    home.mkdir()
    study = tiny(home, ["margin", "normalized_softmax", "triplet"], seeds=2, cut="last-1", steps=150)
    runs, often = resolve(study).runs, Options(pace=Pace(save_every_steps=10))
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
            assert_same_bits(runs, folder, home / "quiet")
            attempt += 1
    return done


# An objective that takes memory until its process is killed, but only the first time that it is used.
GREEDY = """
from pathlib import Path

import numpy as np
from torch import nn

STEP, MOST = 2**26, 2**32  # bytes at once, and in all: no more, should nobody stop it
seen = Path(__file__).with_name("seen")
taken = []

class Greedy(nn.Module):
    def forward(self, embeddings, labels):
        if not seen.exists():
            seen.touch()
            while len(taken) * STEP < MOST:
                taken.append(np.ones(STEP, dtype=np.uint8))
        return embeddings.square().mean()
"""


def short_of_memory(home: Path) -> int:
    """Have Ray's memory monitor kill a process; the losses after which the run has the bits of a quiet one."""
    import psutil

    home.mkdir()
    (home / "greedy.py").write_text(GREEDY)
    (home / "seen").touch()
    study = tiny(home, [f"{home / 'greedy.py'}:Greedy"], seeds=1, steps=100)
    runs, often = resolve(study).runs, Options(pace=Pace(save_every_steps=10))
    assert not run_all(runs, home / "quiet", study.metrics, jobs=0, options=often).failed
    (home / "seen").unlink()
    used = psutil.virtual_memory()
    limits = {"memory_usage_threshold": (used.used + 2 * 1024**3) / used.total, "memory_monitor_refresh_ms": 100}
    watch = Watch()
    with limited(limits), on_ray("local", jobs=1, threads=1) as executor:
        folder = home / "short"
        how: dict[str, Any] = {"jobs": 1, "options": often, "progress": watch, "executor": executor}
        outcome = run_all(runs, folder, study.metrics, **how)
    assert not outcome.failed, outcome.failed
    assert_same_bits(runs, folder, home / "quiet")
    return len(watch.lost)


@contextmanager
def limited(settings: dict[str, Any]) -> Iterator[None]:
    """Context in which a Ray that starts has these settings."""
    names = {f"RAY_{name}": str(value) for name, value in settings.items()}
    os.environ |= names
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]


def commanded(study: Path | str, folder: Path, *options: str) -> float:
    """Seconds of `levelfield compare` in a new process, from its start to its end."""
    command = [sys.executable, "-m", "levelfield", "compare", str(study), "--jobs", "2", "--no-page", *options]
    with tempfile.TemporaryDirectory(dir=folder) as out:
        began = time.perf_counter()
        subprocess.run([*command, "--out", out], check=True, capture_output=True)
        return time.perf_counter() - began


def on_one_machine(quick: bool) -> Iterator[Figure]:
    """The demo with `--ray` against worker processes, and two Ray workers against one; features are stored before."""
    with tempfile.TemporaryDirectory() as folder:
        home, rounds = Path(folder), 1 if quick else 3
        small = tiny(home, ["margin", "triplet"], seeds=2, cut="last-1", steps=20)
        chosen: Path | str = "demo"
        if quick:
            chosen = home / "tiny.yaml"
            chosen.write_text(yaml.safe_dump(small.model_dump(mode="json", exclude_defaults=True)), encoding="utf-8")
        else:
            commanded(chosen, home)
        pairs = [(commanded(chosen, home, "--ray"), commanded(chosen, home)) for _ in range(rounds)]
        facts = {"ray_s": median(ours for ours, _ in pairs), "workers_s": median(peer for _, peer in pairs)}
        cost = median(ours / peer for ours, peer in pairs)
        what = "the whole command with --ray, two at a time"
        yield Figure("ray", what, "two worker processes", cost, 1.15, True, facts=facts)
        equal = small if quick else tiny(home, ["margin"], seeds=8, cut="last-1", steps=300)
        runs = resolve(equal).runs
        pairs = [
            tuple(timed(runs, equal, jobs=jobs, ray=True) for jobs in (1, 2))  # type: ignore[misc]
            for _ in range(rounds)
        ]
        facts = {"one_s": median(one for one, _ in pairs), "two_s": median(two for _, two in pairs)}
        yield Figure("ray", "two Ray workers", "one", median(one / two for one, two in pairs), 1.6, False, facts=facts)


def on_running_ray(quick: bool) -> Iterator[Figure]:
    """The demo with a Ray whose processes are there, as those of a cluster are, against worker processes."""
    with tempfile.TemporaryDirectory() as folder:
        study = tiny(Path(folder), ["margin"], seeds=2, steps=20) if quick else read_study("demo")
        runs = resolve(study).runs
        timed(runs[:2], study, jobs=2, ray=False)
        ours, peer = timed(runs, study, jobs=2, ray=True), timed(runs, study, jobs=2, ray=False)
        facts = {"ray_s": ours, "workers_s": peer}
        what = f"{study.name} with a running Ray, two at a time"
        yield Figure("running ray", what, "two worker processes", ours / peer, 1.15, True, facts=facts)


def killed(quick: bool) -> Iterator[Figure]:
    """Losses after which a study has the same bits."""
    kills = 2 if quick else KILLS
    with tempfile.TemporaryDirectory() as folder:
        for name, shared in (("a shared folder", None), ("folders sent back", False)):
            done = killed_nodes(Path(folder) / name, kills, shared=shared)
            yield Figure("kills", f"nodes killed, {name}", "an undisturbed study", done, kills, False, unit="losses")
        done = short_of_memory(Path(folder) / "greedy")
        yield Figure("kills", "process out of memory", "an undisturbed run", done, 1, False, unit="losses")
