"""The measured pieces of the simulation in `cluster.py`, and the times of a study on 1, 2 and 3 nodes.

The runs of that study wait instead of computing: more nodes than cores can then be measured on one machine.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from cluster import Pieces
from torch.utils.flop_counter import FlopCounterMode

from harness.ray_lanes import Watch, three_nodes, tiny
from levelfield.studies import PlannedRun, Study, resolve
from levelfield.studies.execution.cluster.on_ray import OnRay
from levelfield.studies.execution.cluster.task import Parcel, pack, unpack
from levelfield.studies.execution.events import Event
from levelfield.studies.execution.workers import run_all
from levelfield.studies.runs.run import Options
from levelfield.training import Pace

WAITING = """
import time
from torch import nn

class Waits(nn.Module):
    def forward(self, embeddings, labels):
        time.sleep(0.5)  # as a step on a GPU would, it leaves the cores alone
        return embeddings.square().mean()
"""


def core_speed(*, side: int = 224, batch: int = 4) -> float:
    """Operations a second of one core in the training of a ResNet-50, counted as `cost_counted` does."""
    from timm import create_model

    torch.set_num_threads(1)
    network = create_model("resnet50", pretrained=False, num_classes=128)
    images = torch.rand(batch, 3, side, side)
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        network(images)
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        network(images).square().mean().backward()
        seconds.append(time.perf_counter() - began)
    return 3 * counted.get_total_flops() / min(seconds)


def measure_pieces() -> tuple[Pieces, dict[str, Any]]:
    """Measure what the simulation needs, and a study of waiting runs on 1, 2 and 3 nodes."""
    import ray

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "waits.py").write_text(WAITING)
        study = tiny(home, [f"{home / 'waits.py'}:Waits"], seeds=6, steps=16)
        runs, times, seconds, tasks, starts = resolve(study).runs, {}, [], [], []
        bandwidth = notice = 0.0
        for count in (1, 2, 3):
            with three_nodes(count) as (cluster, nodes):
                cold = Watch()
                run_all(
                    runs[:count],
                    home / f"warm{count}",
                    study.metrics,
                    jobs=1,
                    options=Options(),
                    progress=cold,
                    executor=OnRay(ray),
                )
                starts.append(min(cold.started.values()))
                watch = Watch()
                outcome = run_all(
                    runs,
                    home / f"all{count}",
                    study.metrics,
                    jobs=1,
                    options=Options(),
                    progress=watch,
                    executor=OnRay(ray),
                )
                assert not outcome.failed, outcome.failed
                first, last = min(watch.started.values()), max(watch.ended.values())
                times[str(count)] = last - first
                if count == 1:
                    seconds, tasks = [watch.run_seconds], [(last - first - len(runs) * watch.run_seconds) / len(runs)]
                    bandwidth = _bandwidth(ray, home)
                if count == 3:
                    notice = _notice(ray, cluster, nodes, runs, study, home)
        inside = 0.5 * study.conditions.steps
        pieces = Pieces(
            start=median(starts),
            task=max(0.0, tasks[0]),
            around=seconds[0] - inside,
            notice=notice,
            replace=120.0,  # of the cluster's manager: not measured
            checkpoint=Pace().save_every_seconds,
            bandwidth=bandwidth,
            speed=core_speed(),
        )
        return pieces, {"runs": len(runs), "seconds of a run": seconds[0], "times": times}


def _bandwidth(ray: Any, home: Path) -> float:
    """Bytes a second of a run folder, from a node to the driver's disk."""
    (home / "folder").mkdir()
    (home / "folder" / "model.safetensors").write_bytes(np.random.default_rng(0).bytes(100 * 2**20))
    began = time.perf_counter()
    parcel: Parcel = ray.get(ray.remote(pack).remote(home / "folder"))
    unpack(parcel, home / "arrived")
    return sum(map(len, parcel.files.values())) / (time.perf_counter() - began)


def _notice(ray: Any, cluster: Any, nodes: list[Any], runs: list[PlannedRun], study: Study, home: Path) -> float:
    """Seconds from the death of a node until its run is given out again."""
    struck: list[float] = []

    def heard(event: Event) -> None:
        if event.kind == "progress" and event.text == "training" and event.done > 1 and not struck:
            struck.append(time.perf_counter())
            cluster.remove_node(nodes[0], allow_graceful=False)

    watch = Watch(heard=heard)
    executor = OnRay(ray)
    run_all(runs[:3], home / "notice", study.metrics, jobs=1, options=Options(), progress=watch, executor=executor)
    return watch.lost[0] - (struck[0] - watch.began) if watch.lost else 0.0
