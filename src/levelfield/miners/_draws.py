"""Drawing one column per row, with one uniform number per row (never an n x n matrix of random numbers)."""

from __future__ import annotations

import torch
from torch import Tensor


def uniforms(count: int, like: Tensor, generator: torch.Generator) -> Tensor:
    """`count` float64 numbers in [0, 1) on the device of `like`."""
    return torch.rand(count, generator=generator, dtype=torch.float64, device=generator.device).to(like.device)


def kth(allowed: Tensor, rank: Tensor) -> Tensor:
    """Column of the `rank`-th (from 0) True in each row; meaningless where the row has no so many.

    >>> kth(torch.tensor([[True, False, True], [False, True, True]]), torch.tensor([1, 0]))
    tensor([2, 1])
    """
    running = allowed.cumsum(1, dtype=torch.int32)
    place = torch.searchsorted(running, (rank + 1).to(torch.int32)[:, None]).squeeze(1)
    return place.clamp_max(allowed.shape[1] - 1)


def draw_uniform(allowed: Tensor, generator: torch.Generator) -> Tensor:
    """In each row a uniformly drawn True column; meaningless in rows without any.

    >>> draw_uniform(torch.tensor([[False, True, False]]), torch.Generator().manual_seed(0))
    tensor([1])
    """
    count = allowed.sum(1)
    rank = (uniforms(len(allowed), allowed, generator) * count).long()
    return kth(allowed, torch.minimum(rank, count - 1))


def draw_weighted(weights: Tensor, generator: torch.Generator) -> Tensor:
    """In each row a column drawn in proportion to `weights` >= 0; meaningless in rows of zeros.

    >>> draw_weighted(torch.tensor([[0.0, 0.0, 2.0]]), torch.Generator().manual_seed(0))
    tensor([2])
    """
    running = weights.cumsum(1)
    total = running[:, -1]
    # Rounding may lift u * total to total, beyond the last column that has any weight.
    target = torch.minimum(
        uniforms(len(weights), weights, generator).to(weights.dtype) * total,
        torch.nextafter(total, torch.zeros_like(total)),
    )
    place = torch.searchsorted(running, target[:, None], right=True).squeeze(1)
    return place.clamp_max(weights.shape[1] - 1)


def even(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """The uniform law over each row's True columns; zeros in a row without any.

    >>> even(torch.tensor([[True, True], [False, False]]), torch.float32)
    tensor([[0.5000, 0.5000],
            [0.0000, 0.0000]])
    """
    chosen = allowed.to(dtype)
    return chosen / chosen.sum(-1, keepdim=True).clamp_min(1)


def no_triplets(like: Tensor) -> Tensor:
    return torch.empty((0, 3), dtype=torch.int64, device=like.device)
