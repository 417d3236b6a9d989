"""Two steps of the relation head with explicit gradients: autograd would pass over the same numbers three times."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from levelfield.geometry import TINY, working


class UnitVectors(torch.autograd.Function):
    """Vectors (..., e) divided by their lengths; one no longer than TINY becomes 0 and gets gradient 0."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
        lengths.masked_fill_(lengths <= TINY, torch.inf)
        found = torch.empty(vectors.shape, dtype=vectors.dtype, device=vectors.device)  # whatever the strides of those
        torch.div(vectors, lengths, out=found)
        ctx.save_for_backward(found, lengths)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        found, lengths = ctx.saved_tensors
        (gradient,) = gradients
        inward = (gradient * found).sum(-1, keepdim=True)
        return torch.addcmul(gradient, inward, found, value=-1).div_(lengths)


class Reconstruction(torch.autograd.Function):
    """mean((nodes W + bias - blocks)^2) over the last dimension: (k, n) of nodes (k, n, e) and blocks (k, n, w).

    Only W and the bias have a gradient: the head passes detached nodes and blocks.
    """

    @staticmethod
    def forward(ctx: Any, blocks: Tensor, nodes: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        missed = working(torch.baddbmm(bias, nodes, weight)).sub_(blocks)
        ctx.save_for_backward(missed, nodes)
        mean_square: Tensor = torch.linalg.vector_norm(missed, dim=-1).square_().div_(missed.shape[-1])
        return mean_square

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor, Tensor]:
        missed, nodes = ctx.saved_tensors
        slope = missed * (gradients[0] * (2 / missed.shape[-1])).unsqueeze(-1)
        return None, None, nodes.mT @ slope, slope.sum(1, keepdim=True)
