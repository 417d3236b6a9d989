"""Parameters of which each process has its share of rows, such as the proxies of divided classes.

Their gradients are complete on the process that has them and are not summed. Norms and checkpoints concern the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from levelfield.distributed.ranks import ALONE, Ranks
from levelfield.methods import Method

Change = Callable[[Mapping[str, Any]], dict[str, Any]]


class Shards:
    """The shards of a method (`Method.shards`); none with one process, which has everything.

    >>> from levelfield import methods
    >>> Shards(methods.create("cosface", num_classes=4, dim=2, sharded=True)).parameters
    []
    """

    def __init__(self, method: Method, ranks: Ranks = ALONE) -> None:
        self._ranks = ranks
        self._rows = method.shards if ranks.size > 1 else {}
        self._parameters = {name: each for name, each in method.named_parameters() if name in self._rows}

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The shards of this process."""
        return list(self._parameters.values())

    def __contains__(self, parameter: object) -> bool:
        return any(parameter is each for each in self.parameters)

    def gradient_norms(self) -> list[Tensor]:
        """The norm of each gradient over all processes; all processes must call it."""
        squares = [torch.linalg.vector_norm(each.grad).square() for each in self.parameters if each.grad is not None]
        self._ranks.summed_(squares)
        return [square.sqrt() for square in squares]

    def whole(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state of the method with all rows on the first process; all processes must call it."""
        gather, sizes = self._ranks.at_first, self._ranks.sizes
        return {k: gather(value, sizes(self._rows[k])) if k in self._rows else value for k, value in state.items()}

    def local(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The rows of this process of a `whole` state."""
        share = self._ranks.share
        return {k: value[share(self._rows[k])].clone() if k in self._rows else value for k, value in state.items()}

    def of_optimiser(self, optimiser: Optimizer, content: dict[str, Any], change: Change) -> dict[str, Any]:
        """The state of an optimiser with the moments of the shards changed by `whole` or `local`: the tensors with as
        many axes as the parameter."""
        positions = {id(p): k for k, p in enumerate(p for group in optimiser.param_groups for p in group["params"])}
        state = dict(content["state"])
        for name, parameter in self._parameters.items():
            kept = state.get(position) if (position := positions.get(id(parameter))) is not None else None
            if kept is not None:
                state[position] = {
                    key: change({name: value})[name]
                    if isinstance(value, Tensor) and value.dim() == parameter.dim()
                    else value
                    for key, value in kept.items()
                }
        return {**content, "state": state}
