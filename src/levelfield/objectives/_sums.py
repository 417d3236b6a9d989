"""Sums that several objectives share: overflow-safe logarithms, means, and all triplets without listing them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

Reduction = Literal["mean", "mean_nonzero"]


def log_one_plus_sum_exp(logits: Tensor) -> Tensor:
    """log(1 + sum_j exp(logits_ij)) of each row; entries of -inf do not count.

    >>> log_one_plus_sum_exp(torch.tensor([[0.0, -torch.inf], [1000.0, 0.0]]))
    tensor([6.9315e-01, 1.0000e+03])
    """
    return functional.pad(logits, (0, 1)).logsumexp(1)


def mean(terms: Tensor, counted: Tensor | None, reduction: Reduction, weights: Tensor | None = None) -> Tensor:
    """Mean of `terms` over the `counted` ones (None: all), or over those above 0. `weights` do not change the divisor.

    >>> mean(torch.tensor([0.0, 2.0, 9.0]), torch.tensor([True, True, False]), "mean")
    tensor(1.)
    """
    if counted is not None:
        terms = terms * counted
    total = terms if weights is None else terms * weights
    if reduction == "mean" and counted is None:
        return total.sum() / max(1, terms.numel())
    divisor = terms.detach() > 0 if reduction == "mean_nonzero" or counted is None else counted
    return total.sum() / divisor.sum().clamp_min(1)


class _SumOverBlocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, function: Callable[[Tensor, Tensor], Tensor], items: Tensor) -> Tensor:
        leaf = matrix.detach().requires_grad_(ctx.needs_input_grad[0])
        total, slope = matrix.new_zeros(()), None
        for block in items.split(max(1, len(matrix))):
            with torch.set_grad_enabled(leaf.requires_grad):
                value = function(leaf, block)
            if leaf.requires_grad:
                (more,) = torch.autograd.grad(value, leaf)
                slope = more if slope is None else slope.add_(more)
            total += value.detach()
        ctx.save_for_backward(matrix, torch.zeros_like(matrix) if slope is None else slope)
        ctx.function, ctx.items = function, items
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,), (matrix, slope) = gradients, ctx.saved_tensors
        if torch.is_grad_enabled():  # second derivatives need the whole graph
            (found,) = torch.autograd.grad(ctx.function(matrix, ctx.items), matrix, gradient, create_graph=True)
            return found, None, None
        return slope * gradient, None, None


def sum_over_blocks(function: Callable[[Tensor, Tensor], Tensor], matrix: Tensor, items: Tensor) -> Tensor:
    """Sum of `function(matrix, block)` over blocks of `items`, as many at a time as the matrix has rows.

    Each block's gradient is computed immediately and its graph freed, so that memory is that of a few matrices for any
    number of items; second derivatives need the memory of all blocks.

    >>> matrix = torch.ones(2, 2, requires_grad=True)
    >>> sum_over_blocks(lambda m, rows: m[rows].sum(), matrix, torch.tensor([0, 1, 1, 1]))
    tensor(8., grad_fn=<_SumOverBlocksBackward>)
    """
    result: Tensor = _SumOverBlocks.apply(matrix, function, items)  # type: ignore[no-untyped-call]
    return result
