"""Closed forms: compute value and slope W = dL/dM of a pair matrix M together; one product gives the gradient.

An objective defines its equation in `parts` (autograd on Geometry: the definition) and optionally `quick`: the same
terms with their slope. `closed` joins both into one differentiable node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from levelfield.errors import BadInput
from levelfield.geometry import Geometry, full_precision

if TYPE_CHECKING:
    from levelfield.objectives._contract import LossInputs, Objective

LOG2_E = math.log2(math.e)  # exponentials use base 2: natural ones are slow when they underflow
Matrix = Literal["similarity", "distance", "squared_distance"]
Slopes = Callable[[Tensor], Sequence[Tensor | None]]


def closed(
    objective: Objective,
    inputs: LossInputs,
    geometry: Geometry,
    terms: Mapping[str, Tensor],
    slope: Tensor,
    matrix: Matrix,
    also: Callable[[Tensor], object] | None = None,
) -> Tensor:
    """Sum of the terms, with the gradient of the embeddings that follows from `slope`, its derivative by `matrix`.

    also: adds the gradient of further terms in place.
    """
    for name in ("similarity", "squared_distance"):
        geometry.__dict__.pop(name, None)  # not needed in the backward pass, and as large as the slope

    def slopes(upstream: Tensor) -> list[Tensor]:
        gradient = back_to_rows(geometry, slope, matrix)
        if also is not None:
            also(gradient)
        return [gradient.mul_(upstream)]

    return attached(objective.total(terms), [inputs.embeddings], slopes)


def back_to_rows(geometry: Geometry, slope: Tensor, matrix: Matrix) -> Tensor:
    """Gradient of the raw rows (n, d) from the slope dL/dM of one of the geometry's matrices; does not modify `slope`.

    With V the slope of x.y (for distances -W/d, 0 where d = 0) the gradient of the rows is (V + V') X, plus the row
    sums times X for distances. Unit rows need no such term: their projection removes it.
    """
    rows = geometry.rows
    if matrix != "similarity" and not geometry.normalized:
        rows = rows - rows[:1]  # far from the origin the sums below would lose all digits; distances do not change
    both = slope.T.contiguous()  # transposed copy and in-place addition: four times as fast as W + W.T
    both += slope
    if matrix == "distance":  # the slope is 0 where d = 0
        both /= functional.threshold(geometry.distance, 0.0, torch.inf)
    gradient = both @ rows
    if matrix != "similarity":
        if not geometry.normalized:
            gradient = gradient.addcmul_(both.sum(1, keepdim=True), rows, value=-1)
        gradient = gradient.mul_(-2 if matrix == "squared_distance" else -1)
    return gradient if geometry.lengths is None else through_unit(gradient, rows, geometry.lengths)


def through_unit(gradient: Tensor, rows: Tensor, lengths: Tensor) -> Tensor:
    """Gradient of raw rows from that of unit rows (in place): subtract the component along the row."""
    inward = (gradient * rows).sum(1, keepdim=True)
    return gradient.addcmul_(inward, rows, value=-1).div_(lengths)


def wants_slope(*tensors: Tensor) -> bool:
    """Whether a gradient is needed; otherwise a closed form may skip a costly slope."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def attached(value: Tensor, tensors: Sequence[Tensor], slopes: Slopes) -> Tensor:
    """`value` as a differentiable function of `tensors` (embeddings first, then parameters).

    slopes(upstream): the gradients times the upstream gradient, called in the backward pass.

    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.grad(attached(torch.tensor(9.0), [x], lambda upstream: [2 * x.detach() * upstream]), x)
    (tensor(6.),)
    """
    if not wants_slope(*tensors):
        return value
    result: Tensor = _Attached.apply(value, slopes, *tensors)  # type: ignore[no-untyped-call]
    return result


class _Attached(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, slopes: Slopes, *tensors: Tensor) -> Tensor:
        ctx.slopes = slopes
        ctx.save_for_backward(*tensors)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise BadInput(
                "The closed form of this loss has no second derivatives (`create_graph`): differentiate the sum of "
                "`objective.terms(embeddings, labels).values()` instead, without `sharded`."
            )
        _ = ctx.saved_tensors  # torch refuses a second backward pass, and tensors that were changed in place
        with full_precision(gradients[0].device.type):  # backward may run under the caller's autocast
            return None, None, *ctx.slopes(gradients[0])
