"""Sums that several objectives share: means, overflow-safe logarithms, sums over blocks, and norms of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from levelfield.geometry import Geometry
from levelfield.labels import ClassTable, hide_
from levelfield.objectives._parts.closed import LOG2_E

Reduction = Literal["mean", "mean_nonzero"]


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


def log_one_plus_exp(logits: Tensor) -> Tensor:
    """log(1 + exp(z)) of each entry."""
    return functional.softplus(logits, threshold=40)  # torch's default threshold of 20 is visible in float64


def log_one_plus_sum_exp(logits: Tensor) -> Tensor:
    """log(1 + sum_j exp(logits_ij)) of each row; entries of -inf do not count.

    >>> log_one_plus_sum_exp(torch.tensor([[0.0, -torch.inf], [1000.0, 0.0]]))
    tensor([6.9315e-01, 1.0000e+03])
    """
    return functional.pad(logits, (0, 1)).logsumexp(1)


def log_sum_exp(logits: Tensor, counted: Tensor) -> Tensor:
    """log sum_j exp(logits_ij) over the `counted` entries of each row; finite but meaningless in rows without any.

    >>> log_sum_exp(torch.tensor([[1000.0, 7.0], [0.0, 0.0]]), torch.tensor([[True, False], [True, True]]))
    tensor([1.0000e+03, 6.9315e-01])
    """
    none = ~counted.any(1, keepdim=True)  # an empty sum has slope NaN, even if it is unused
    return logits.masked_fill(~(counted | none), -torch.inf).logsumexp(1)


class Negatives(NamedTuple):
    """`log_sum` (n, 1) over each row's negatives, -inf without any; its slope is `exponentials` / `total`."""

    log_sum: Tensor
    exponentials: Tensor  # (n, n), 0 at positives
    total: Tensor  # (n, 1), never 0


def negatives(matrix: Tensor, table: ClassTable, scale: float) -> Negatives:
    """log sum over negatives n of exp(scale * matrix_an), in base 2, which is fast for values of any size; does not
    modify `matrix`."""
    return exponential_sums_(hide_(matrix * (scale * LOG2_E), table, -torch.inf))


def exponential_sums_(exponents: Tensor) -> Negatives:
    """log sum_j 2^exponents_ij of each row, with the terms written over the exponents; -inf does not count."""
    top = exponents.amax(1, keepdim=True).clamp_min_(torch.finfo(exponents.dtype).min)
    exponentials = exponents.sub_(top).exp2_()
    total = exponentials.sum(1, keepdim=True)
    return Negatives((total.log2() + top) / LOG2_E, exponentials, total.masked_fill_(total == 0, 1))


class _SumOverBlocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, function: Callable[[Tensor, Tensor], Tensor], items: Tensor) -> Tensor:
        leaf = matrix.detach().requires_grad_(ctx.needs_input_grad[0])
        total, slope = matrix.new_zeros(()), torch.zeros_like(matrix)
        for block in items.split(max(1, len(matrix))):
            with torch.set_grad_enabled(leaf.requires_grad):
                value = function(leaf, block)
            if leaf.requires_grad:
                slope += torch.autograd.grad(value, leaf)[0]
            total += value.detach()
        ctx.save_for_backward(matrix, slope)
        ctx.function, ctx.items = function, items
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,), (matrix, slope) = gradients, ctx.saved_tensors
        if torch.is_grad_enabled():  # second derivatives need the whole graph
            (slope,) = torch.autograd.grad(ctx.function(matrix, ctx.items), matrix, gradient, create_graph=True)
            return slope, None, None
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


def norms(rows: Tensor, power: int) -> Tensor:
    """|x|^power of each row (n,); power 1 or 2.

    >>> norms(torch.tensor([[3.0, 4.0]]), 2)
    tensor([25.])
    """
    return rows.square().sum(1) if power == 2 else torch.linalg.vector_norm(rows, dim=1)


def mean_norm(
    geometry: Geometry, nu: float, power: int, count: int | None = None
) -> tuple[dict[str, Tensor], Callable[[Tensor], Tensor]]:
    """In closed form: the term `norm`, `nu` times the mean of `norms` over `count` (default: the number of rows), and
    the function that adds its slope to a gradient of the geometry's rows. Without `nu` both do nothing; unit and zero
    rows have no slope."""
    rows = geometry.rows
    if not nu:
        return {}, lambda gradient: gradient
    weight, each = nu / (count or len(rows)), norms(rows, power)

    def add_slope_(gradient: Tensor) -> Tensor:
        if geometry.normalized:
            return gradient
        if power == 2:
            return gradient.add_(rows, alpha=2 * weight)
        return gradient.addcdiv_(rows, each.masked_fill(each == 0, torch.inf)[:, None], value=weight)

    return {"norm": nu * each.mean() if count is None else nu * each.sum() / count}, add_slope_
