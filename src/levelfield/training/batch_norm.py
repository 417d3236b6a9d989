"""BatchNorm over a batch that is divided among processes: its statistics are those of the whole batch.

The same function as torch's `nn.SyncBatchNorm`, but on every device and backend, and for every layer that calls
`functional.batch_norm` in training mode, such as timm's BatchNorm with an activation. Nothing waits for the device.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from levelfield.distributed.ranks import Ranks


def common_statistics(ranks: Ranks) -> AbstractContextManager[object]:
    """Context in which BatchNorm in training mode uses the statistics of the rows of all ranks.

    Every rank must call the same layers in the same order. The gradients of scale and shift are those of the rank's
    own rows, to be summed over the ranks like those of other weights.
    """
    return _CommonStatistics(ranks) if ranks.size > 1 else nullcontext()


class _CommonStatistics(TorchFunctionMode):
    """Replaces `functional.batch_norm`, whatever layer calls it."""

    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        self._ranks = ranks

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is functional.batch_norm:
            return self._batch_norm(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _batch_norm(
        self,
        input: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        if not training:
            return functional.batch_norm(input, running_mean, running_var, weight, bias, eps=eps)
        mean, var, count = _statistics(input.detach(), self._ranks)
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean), momentum)
        if running_var is not None:
            unbiased = var * (count / (count - 1).clamp(min=1))
            running_var.lerp_(unbiased.to(running_var), momentum)
        apply: Any = _Normalised.apply
        normalised: Tensor = apply(input, weight, bias, mean, var, count, eps, self._ranks)
        return normalised


def _statistics(rows: Tensor, ranks: Ranks) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance (channels,) of the rows of all ranks, and the number of values per channel."""
    rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
    channels, count = rows.shape[1], rows.numel() // rows.shape[1]
    zeros = rows.new_zeros(channels)
    var, mean = torch.var_mean(rows, _axes(rows), correction=0) if count else (zeros, zeros)
    local = torch.cat([mean, var, mean.new_full((1,), count)])
    means, variances, counts = ranks.gathered(local[None], [1] * ranks.size).split([channels, channels, 1], dim=1)
    total = counts.sum()
    shares = counts / total
    mean = (shares * means).sum(0)  # sums in the order of the ranks: the same bits on all of them
    var = (shares * (variances + (means - mean).square())).sum(0)  # no difference of squares: they can cancel
    return mean, var, total


class _Normalised(torch.autograd.Function):
    """Rows normalised by the statistics of all ranks, whose dependence on the rows is part of the gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        var: Tensor,
        count: Tensor,
        eps: float,
        ranks: Ranks,
    ) -> Tensor:
        ctx.save_for_backward(rows, weight, mean, var, count)
        ctx.eps, ctx.ranks = eps, ranks
        return functional.batch_norm(rows, mean, var, weight, bias, eps=eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, mean, var, count = ctx.saved_tensors
        along = [1, -1, *[1] * (rows.ndim - 2)]
        scale = torch.rsqrt(var + ctx.eps)
        normalised = (rows - mean.view(along)) * scale.view(along)
        sums = torch.stack([gradient.to(mean).sum(_axes(rows)), (gradient * normalised).sum(_axes(rows))])
        of_bias, of_weight = sums.unbind()
        of_rows = None
        if ctx.needs_input_grad[0]:
            means = sums.clone()
            ctx.ranks.summed_([means])
            means /= count
            of_rows = gradient - means[0].view(along) - normalised * means[1].view(along)
            of_rows = (of_rows * (scale if weight is None else scale * weight).view(along)).to(rows.dtype)
        wanted = ctx.needs_input_grad
        return of_rows, of_weight if wanted[1] else None, of_bias if wanted[2] else None, None, None, None, None, None


def _axes(rows: Tensor) -> list[int]:
    """All axes but that of the channels."""
    return [0, *range(2, rows.ndim)]
