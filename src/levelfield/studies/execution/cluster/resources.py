"""What a run asks a cluster for: cores, memory, and a GPU if its device is one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from levelfield.errors import BadInput
from levelfield.studies.execution.cluster.nodes import Node
from levelfield.studies.planning.memory import memory_of
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.spec import PlannedRun


@dataclass(frozen=True)
class Demand:
    """Resources of one run; memory in bytes."""

    cpus: int
    gpus: int
    memory: int

    def options(self, nodes: list[Node], *, times: int = 1) -> dict[str, Any]:
        """Options of a Ray task. times: more memory, after a lack of it; never more than the largest node has."""
        most = max((node.memory for node in nodes), default=self.memory)
        return {"num_cpus": self.cpus, "num_gpus": self.gpus, "memory": min(times * self.memory, most)}


@dataclass
class Demands:
    """The demands of the runs of a plan; runs that need the same are estimated once."""

    options: Options
    known: dict[str, int] = field(default_factory=dict)

    def of(self, run: PlannedRun) -> Demand:
        spec = run.spec
        key = f"{spec.data} {spec.protocol} {spec.conditions} {spec.joined} {len(spec.needs)} {spec.fold}"
        if key not in self.known:
            self.known[key] = memory_of(spec, self.options)
        return Demand(spec.conditions.threads, int(self.options.device.partition(":")[0] == "cuda"), self.known[key])

    def check(self, runs: list[PlannedRun], nodes: list[Node]) -> None:
        """Refuse, before training, a run that no node can do: Ray would wait for such a node forever."""
        for run in runs:
            demand = self.of(run)
            if not any(node.cpus >= demand.cpus for node in nodes):
                most = max((node.cpus for node in nodes), default=0)
                raise BadInput(
                    f"'{run.title}' needs {demand.cpus} cores (conditions.threads), but no node has more than {most:g}."
                )
            if demand.gpus and not any(node.gpus >= demand.gpus and node.cpus >= demand.cpus for node in nodes):
                raise BadInput(
                    f"--device {self.options.device}: no node of the cluster has a GPU and {demand.cpus} cores."
                )
