"""What a run asks a cluster for: cores, a GPU if its device is one, and an estimate of its main memory, so that a
scheduler does not put too many runs on one machine."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from levelfield.embedder.trunk.blocks import BLOCK
from levelfield.embedder.trunk.cache import IN_MEMORY
from levelfield.errors import BadInput
from levelfield.studies.execution.cluster.nodes import Node
from levelfield.studies.runs.inputs import RunInputs, inputs_for
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.spec import PlannedRun, RunSpec

BASE = 640 * 1024**2  # bytes of a Ray process that has imported everything a run needs (measured: 620 MB)
COPIES = 6  # of what trains: weights, start, gradient, two moments, and one on its way to the checkpoint
ACTIVATIONS = 2  # a training step stores an activation and its gradient
ROUND = 64 * 1024**2


@dataclass
class Demands:
    """The demands of the runs of a plan; the memory of runs that need the same is estimated once."""

    options: Options
    memory: dict[str, int] = field(default_factory=dict)

    def of(self, spec: RunSpec, nodes: list[Node], *, times: int = 1) -> dict[str, Any]:
        """Options of the Ray task of a run.

        times: more memory, after a lack of it; never more than the largest node has.
        """
        key = f"{spec.data} {spec.protocol} {spec.conditions} {spec.joined} {len(spec.needs)} {spec.fold}"
        if key not in self.memory:
            self.memory[key] = memory_of(spec, self.options)
        most = max((node.memory for node in nodes), default=self.memory[key])
        gpus = int(self.options.device.startswith("cuda"))
        return {"num_cpus": spec.conditions.threads, "num_gpus": gpus, "memory": min(times * self.memory[key], most)}

    def check(self, runs: list[PlannedRun], nodes: list[Node]) -> None:
        """Refuse, before training, a run that no node can do: Ray would wait for such a node forever."""
        gpu = self.options.device.startswith("cuda")
        fit = [node.cpus for node in nodes if node.gpus >= gpu]
        if gpu and not fit:
            raise BadInput(f"--device {self.options.device}: no node of the cluster has a GPU.")
        for run in runs:
            if (cpus := run.spec.conditions.threads) > max(fit, default=0):
                which = "node with a GPU" if gpu else "node"
                raise BadInput(
                    f"'{run.title}' needs {cpus} cores (conditions.threads), but no {which} has more than "
                    f"{max(fit, default=0):g}."
                )


def memory_of(spec: RunSpec, options: Options) -> int:
    """Bytes of main memory that a run needs at most; a run that joins others reads only their embeddings."""
    inputs = inputs_for(spec, options.cache_folder, "cpu")
    conditions, fold = spec.conditions, inputs.fold
    dim = conditions.dim * max(1, len(spec.needs) if spec.joined else 1)
    needed = BASE + 4 * 4 * len(fold.test) * dim  # embeddings: raw, refined, normalised and a copy for searching
    if not spec.joined:
        trunk = inputs.frozen_trunk
        trained = sum(parameter.numel() for _, parameter in trunk.trainable()) + inputs.width * dim
        still = sum(parameter.numel() for parameter in trunk.parameters())
        batch = max(BLOCK, conditions.layout.batch_size // conditions.pieces)
        images = len(fold.train) + len(fold.validation) + len(fold.test)
        needed += 4 * (COPIES * trained + still) + _features(inputs, images)
        needed += 4 * ACTIVATIONS * batch * _activations(inputs)
    return math.ceil(needed / ROUND) * ROUND


def _features(inputs: RunInputs, images: int) -> int:
    """Bytes of stored features in memory; larger stores are read from disk."""
    if not inputs.is_cached:
        return 0
    each = 4 * sum(math.prod(shape) for shape in inputs.frozen_trunk.stored_shapes(inputs.conditions.image))
    views = max(1, inputs.conditions.views) if inputs.views[0].random else 1
    return min(each * images * (views + 1), 2 * IN_MEMORY)


def _activations(inputs: RunInputs) -> int:
    """Numbers that one image leaves above the cut, counted in one forward pass."""
    sizes: list[int] = []

    def count(module: nn.Module, inputs: object, result: object) -> None:
        if isinstance(result, Tensor) and not any(module.children()):
            sizes.append(result.numel())

    trunk = inputs.new_trunk()
    stored = tuple(torch.zeros(1, *shape) for shape in trunk.stored_shapes(inputs.conditions.image))
    for module in trunk.modules():
        module.register_forward_hook(count)
    with torch.no_grad():
        result = trunk.above(*stored)
    return sum(sizes) + sum(part.numel() for part in stored) + result.numel()
