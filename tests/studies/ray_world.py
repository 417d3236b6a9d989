"""A Ray cluster of three nodes on this machine: a head for drivers, and two nodes that do runs and can be killed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster
from small_world import result

from levelfield.studies import PlannedRun

# A killed node refuses connections and is noticed within three seconds instead of fifteen; one that is only slow to
# answer, on a busy machine, is not taken for dead. Workers have the priority of other tests.
QUICK = {"health_check_period_ms": 500, "health_check_failure_threshold": 6, "health_check_timeout_ms": 15000}
QUICK |= {"worker_niceness": 0}
NODE: dict[str, Any] = {"num_cpus": 1, "memory": 4 * 1024**3, "object_store_memory": 100 * 1024**2}
QUIET: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}


class World:
    """The cluster, to which this process is connected."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.nodes = [cluster.add_node(**NODE) for _ in range(2)]

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def replace(self, number: int) -> None:
        """Kill a node with all its processes, and add another one."""
        self.cluster.remove_node(self.nodes[number], allow_graceful=False)
        self.nodes[number] = self.cluster.add_node(wait=False, **NODE)


@contextmanager
def ray_world() -> Iterator[World]:
    head = {**NODE, "num_cpus": 0, "include_dashboard": False, "_system_config": QUICK}
    before = signal.getsignal(signal.SIGTERM)  # Ray changes it
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        world = World(cluster)
        ray.init(address=world.address, **QUIET)
        yield world
    finally:
        ray.shutdown()
        cluster.shutdown()
        signal.signal(signal.SIGTERM, before)


def results(runs: list[PlannedRun], folder: Path) -> list[dict[str, Any]]:
    return [result(run.folder(folder)) for run in runs]
