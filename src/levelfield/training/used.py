"""Inputs of a step: the batch, the network and the method's own tensors. Any other tensor is refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from levelfield.errors import Unfair
from levelfield.methods import Batch, Method

FEW = 64  # tensors up to this size are allowed: margins, weights of terms


class Used(TorchDispatchMode):
    """Context that records every tensor used that is neither known nor computed inside. Does not change results.

    >>> hidden = torch.ones(100)
    >>> with Used([]) as used:
    ...     _ = torch.ones(100) + hidden
    >>> [tuple(tensor.shape) for tensor in used.foreign]
    [(100,)]
    """

    def __init__(self, known: Iterable[Tensor], places: Iterable[tuple[torch.device, int]] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._known = {*places, *(_place(tensor) for tensor in known)}
        self.foreign: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for tensor in tree_leaves((args, kwargs)):
            if isinstance(tensor, Tensor) and _counts(tensor) and _place(tensor) not in self._known:
                self._known.add(_place(tensor))
                self.foreign.append(tensor)
        found = func(*args, **kwargs)
        self._known |= {_place(tensor) for tensor in tree_leaves(found) if isinstance(tensor, Tensor)}
        return found

    def check(self, method: Method, batch: Batch) -> None:
        """Refuse tensors that belong to neither the batch nor the network nor the method."""
        taught = len(batch.labels) if method.wants is not None else None  # rows of a declared teacher
        for tensor in self.foreign:
            if taught is None or len(tensor) != taught:
                raise Unfair(
                    f"The step uses a tensor {tuple(tensor.shape)} of {tensor.numel():,} numbers that belongs to "
                    "neither "
                    "the batch nor the network nor the method: a hidden memory or network. Make it a parameter, a "
                    "buffer (`register_buffer`) or a module of the method, so that the ledger counts it. Compute "
                    "values that depend on labels in torch, not in numpy or from lists."
                )


def known_to(method: nn.Module, batch: Batch) -> list[Tensor]:
    """Tensors that a step may use besides the network."""
    inputs = [batch.inputs] if isinstance(batch.inputs, Tensor) else list(batch.inputs)
    return [*inputs, batch.labels, *method.parameters(), *method.buffers()]


def places_in(network: nn.Module) -> frozenset[tuple[torch.device, int]]:
    """Storage addresses of all tensors of a network."""
    kept = [value for module in network.modules() for value in vars(module).values() if isinstance(value, Tensor)]
    return frozenset(_place(tensor) for tensor in (*network.parameters(), *network.buffers(), *kept))


def _counts(tensor: Tensor) -> bool:
    return tensor.numel() > FEW and (tensor.is_floating_point() or tensor.is_complex())


def _place(tensor: Tensor) -> tuple[torch.device, int]:
    return tensor.device, tensor.untyped_storage().data_ptr()
