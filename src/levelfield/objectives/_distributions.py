"""Distances of rows to one normal distribution per class (003 section 3.1), without a cube of rows x classes x numbers.

The square is multiplied out, so that a distance is two products of matrices. `distances` is the definition;
`quick_distances` gives the same with its gradients in chunks of classes that stay in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from levelfield.geometry import Geometry, lengths_of, unit
from levelfield.objectives._closed import attached, through_unit, wants_slope

AT_ONCE = 1024  # classes in a chunk
Bounds = tuple[float, float]


def distances(rows: Tensor, means: Tensor, log_vars: Tensor | None, *, log_var_clamp: Bounds) -> Tensor:
    """D_ic = sum_f (x_if - m_cf)^2 / v_cf (b, C): squared, of unit rows x and unit means m, v = exp(clamped log_vars).

    rows: (b, d). means, log_vars: (C, d); without log_vars the means are proxies, v = 1.

    >>> rows, means = torch.tensor([[2.0, 0.0], [0.0, 5.0]]), torch.tensor([[1.0, 0.0]])
    >>> distances(rows, means, torch.tensor([[-3.0, 2.0]]), log_var_clamp=(0, 6))  # 1/1 + 1/e^2
    tensor([[0.0000],
            [1.1353]])
    """
    if log_vars is None:
        return Geometry(rows, means, normalize=True).squared_distance
    x, m = unit(rows), unit(means)
    precision = functional.hardtanh(log_vars, *log_var_clamp).neg().exp()
    return x.square() @ precision.T - 2 * x @ (m * precision).T + (m.square() * precision).sum(1)


def quick_distances(rows: Tensor, means: Tensor, log_vars: Tensor, *, log_var_clamp: Bounds) -> Tensor:
    """`distances`, with the gradients written down: nothing of the size (C, d) is kept or passed over twice.

    >>> rows, means, log_vars = torch.eye(2), torch.tensor([[0.0, 3.0]]), torch.tensor([[0.5, 8.0]])
    >>> torch.equal(*(f(rows, means, log_vars, log_var_clamp=(0, 6)) for f in (distances, quick_distances)))
    True
    """
    lengths = lengths_of(rows.detach())
    x = rows.detach() / lengths
    squares, found = x.square(), rows.new_empty(len(rows), len(means))
    room = rows.new_empty(min(AT_ONCE, len(means)), len(rows))  # products are quicker class by class
    for chunk in _chunks(means, log_vars, log_var_clamp):
        inverse, block = chunk.inverse, room[: len(chunk.means)]
        inward = torch.mul(chunk.pulled, chunk.means, out=chunk.scratch).sum(1, keepdim=True).mul_(inverse)
        torch.addmm(inward, chunk.pulled, x.T, alpha=-2, out=block).mul_(inverse).addmm_(chunk.precision, squares.T)
        found[:, chunk.part] = block.T
    if not wants_slope(rows, means, log_vars):
        return found

    def slopes(upstream: Tensor) -> list[Tensor]:
        """With W the slope by D: of x 2 (x * W / v - W (m / v)), of m 2 (W'1 * m - W'x) / v, of 1/v W'(x - m)^2."""
        of_means, of_log_vars = torch.empty_like(means), torch.empty_like(log_vars)
        spread, pull = torch.zeros_like(x), torch.zeros_like(x)
        for chunk in _chunks(means, log_vars, log_var_clamp):
            part, inverse, precision, scratch = chunk.part, chunk.inverse, chunk.precision, chunk.scratch
            raw_means, of_raw = chunk.means, of_means[part]
            weights = upstream[:, part].T.clone(memory_format=torch.contiguous_format)  # it is written to
            spread.addmm_(weights.T, precision)
            of_logs = torch.addmm(scratch, weights, squares, beta=0, alpha=-1, out=scratch)
            length = weights.sum(1, keepdim=True) * inverse * inverse
            weights *= inverse
            pull.addmm_(weights.T, chunk.pulled)
            torch.mul(length, raw_means, out=of_raw).addmm_(weights, x, alpha=-2)  # (W'1 m - 2 W'x) / |mean|
            of_logs.addcmul_(raw_means, of_raw, value=-1).mul_(precision)  # - W'(x - m)^2 / v
            _through_clamp(of_logs, chunk.log_vars, log_var_clamp, out=of_log_vars[part])
            of_raw.addcmul_(length, raw_means).mul_(precision)  # 2 (W'1 m - W'x) / v / |mean|: of the unit mean
            inward = torch.mul(of_raw, raw_means, out=scratch).sum(1, keepdim=True)
            of_raw.addcmul_(inward.mul_(inverse).mul_(inverse), raw_means, value=-1)
        of_rows = through_unit(x.mul(spread).sub_(pull).mul_(2), x, lengths)
        return [of_rows, of_means, of_log_vars]

    return attached(
        found,
        [rows, means, log_vars],
        slopes,
        lambda: distances(rows, means, log_vars, log_var_clamp=log_var_clamp),
    )


class _Chunk(NamedTuple):
    """Some of the classes. Means are never normalised: what they give is divided by their lengths."""

    part: slice
    means: Tensor  # raw (k, d)
    log_vars: Tensor
    inverse: Tensor  # 1 / length of the means (k, 1)
    precision: Tensor  # 1 / v (k, d)
    pulled: Tensor  # means / v (k, d)
    scratch: Tensor  # room for (k, d)


def _chunks(means: Tensor, log_vars: Tensor, bounds: Bounds) -> Iterator[_Chunk]:
    """All classes, chunk by chunk, in the same buffers: fresh memory costs more than what is done with it."""
    means, log_vars = means.detach(), log_vars.detach()
    room = means.new_empty(3, min(AT_ONCE, len(means)), means.shape[1])
    for start in range(0, len(means), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        some, logs = means[part], log_vars[part]
        precision, pulled, scratch = room[:, : len(some)]
        torch.clamp(logs, *bounds, out=precision).neg_().exp_()
        torch.mul(some, precision, out=pulled)
        yield _Chunk(part, some, logs, lengths_of(some).reciprocal_(), precision, pulled, scratch)


def _through_clamp(gradient: Tensor, values: Tensor, bounds: Bounds, *, out: Tensor) -> None:
    """The gradient of clamped values, 0 at and beyond the bounds, in one pass."""
    torch.ops.aten.hardtanh_backward.grad_input(gradient, values, *bounds, grad_input=out)
