"""Values of all processes, with gradient: rows for an objective, hidden states, and sums over divided classes."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from levelfield.distributed.ranks import Ranks, current


def gather(
    embeddings: Tensor, labels: Tensor, indices: Tensor, *, averaged: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The batch gathered from all processes in rank order, with gradient; with one process, the batch itself.

    Every process then computes the loss of the whole batch, so that the gradient of the loss's own parameters is
    complete on each of them, and each has the network's gradient for its own rows: sum the latter over the processes
    and leave the former alone. Processes may have different numbers of rows.

    averaged: for DistributedDataParallel around the network, which divides the sum by the number of processes.

    >>> rows, labels = torch.eye(2), torch.tensor([0, 1])
    >>> [torch.equal(*pair) for pair in zip(gather(rows, labels, labels), (rows, labels, labels), strict=True)]
    [True, True, True]
    """
    ranks = current()
    if ranks.size == 1:
        return embeddings, labels, indices
    sizes = ranks.counts(len(embeddings))
    rows = _gathered(embeddings, ranks, sizes, factor=float(ranks.size) if averaged else 1.0)
    both = ranks.gathered(torch.stack([labels, indices.to(labels)], dim=1), sizes)  # one message
    return rows, both[:, 0], both[:, 1].to(indices.dtype)


def exchange(rows: Tensor, ranks: Ranks, sizes: list[int]) -> Tensor:
    """The rows of all ranks, any of which each rank may use: their gradients are summed over the ranks."""
    return rows if ranks.size == 1 else _gathered(rows, ranks, sizes, summed=True)


def shared(rows: Tensor, ranks: Ranks) -> Tensor:
    """The same rows, which every rank uses for its own part of the loss: their gradients are summed over the ranks."""
    if ranks.size == 1 or not rows.requires_grad:
        return rows
    copies = rows.view_as(rows)
    copies.register_hook(partial(_summed, ranks))
    return copies


def from_each(values: Tensor, ranks: Ranks) -> Tensor:
    """The values of each rank (ranks, ...), for a loss that all ranks compute alike."""
    return values[None] if ranks.size == 1 else _gathered(values[None], ranks, [1] * ranks.size)


def _gathered(rows: Tensor, ranks: Ranks, sizes: list[int], *, factor: float = 1.0, summed: bool = False) -> Tensor:
    apply: Any = _Gathered.apply
    gathered: Tensor = apply(rows, ranks, sizes, factor, summed)
    return gathered


class _Gathered(torch.autograd.Function):
    """Backward: this rank's share of the gradient, which all ranks have computed alike, or of its sum over them."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, ranks: Ranks, sizes: list[int], factor: float, summed: bool) -> Tensor:
        ctx.ranks, ctx.factor, ctx.summed = ranks, factor, summed
        ctx.start, ctx.size = sum(sizes[: ranks.rank]), sizes[ranks.rank]
        return ranks.gathered(rows, sizes)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        gradient = gradients[0]
        if ctx.summed:
            gradient = _summed(ctx.ranks, gradient)
        share = gradient.narrow(0, ctx.start, ctx.size)
        return share if ctx.factor == 1.0 else share * ctx.factor, None, None, None, None


def _summed(ranks: Ranks, gradient: Tensor) -> Tensor:
    total = gradient.clone()
    ranks.summed_([total])
    return total
