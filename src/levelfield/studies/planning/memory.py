"""Estimate the main memory of a run before it starts, so that a scheduler does not put too many on one machine."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from levelfield.embedder.trunk.blocks import BLOCK
from levelfield.embedder.trunk.cache import IN_MEMORY
from levelfield.studies.runs.inputs import RunInputs, inputs_for
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.spec import RunSpec

BASE = 640 * 1024**2  # bytes of a Ray process that has imported everything a run needs (measured: 620 MB)
COPIES = 6  # of what trains: weights, start, gradient, two moments, and one on its way to the checkpoint
KEPT = 2  # a training step keeps an activation and its gradient
ROUND = 64 * 1024**2


def memory_of(spec: RunSpec, options: Options) -> int:
    """Bytes of main memory that a run needs at most; a run that joins others reads only their embeddings."""
    inputs = inputs_for(spec, options.cache_folder, "cpu")
    conditions, fold = spec.conditions, inputs.fold
    images = len(fold.train) + len(fold.validation) + len(fold.test)
    dim = conditions.dim * max(1, len(spec.needs) if spec.joined else 1)
    embeddings = 4 * 4 * len(fold.test) * dim  # raw, refined, normalised and a copy for searching
    if spec.joined:
        return _rounded(BASE + embeddings)
    trunk = inputs.still_trunk
    trained = sum(parameter.numel() for _, parameter in trunk.trainable()) + inputs.width * dim
    still = sum(parameter.numel() for parameter in trunk.parameters())
    batch = max(BLOCK, conditions.layout.batch_size // conditions.pieces)
    steps = 4 * KEPT * batch * _activations(inputs)
    return _rounded(BASE + 4 * (COPIES * trained + still) + _features(inputs, images) + steps + embeddings)


def _features(inputs: RunInputs, images: int) -> int:
    """Bytes of stored features in memory; larger stores are read from disk."""
    if not inputs.is_cached:
        return 0
    each = 4 * sum(math.prod(shape) for shape in inputs.still_trunk.stored_shapes(inputs.conditions.image))
    views = max(1, inputs.conditions.views) if inputs.views[0].random else 1
    return min(each * images * (views + 1), 2 * IN_MEMORY)


def _activations(inputs: RunInputs) -> int:
    """Numbers that one image leaves above the cut, counted in one forward pass."""
    counted = 0

    def count(module: nn.Module, inputs: object, result: object) -> None:
        nonlocal counted
        if isinstance(result, Tensor) and not any(module.children()):
            counted += result.numel()

    trunk = inputs.new_trunk()
    stored = tuple(torch.zeros(1, *shape) for shape in trunk.stored_shapes(inputs.conditions.image))
    hooks = [module.register_forward_hook(count) for module in trunk.modules()]
    try:
        with torch.no_grad():
            result = trunk.above(*stored)
    finally:
        for hook in hooks:
            hook.remove()
    return counted + sum(part.numel() for part in stored) + result.numel()


def _rounded(size: int) -> int:
    return math.ceil(size / ROUND) * ROUND
