"""Distances of rows to one normal distribution per class (003 section 3.1), without a cube of rows x classes x numbers.

The square is multiplied out, so that a distance is two products of matrices. `distances` is the definition;
`quick_distances` gives the same with its gradients in chunks of classes that stay in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from levelfield.geometry import Geometry, lengths_of, unit
from levelfield.objectives._closed import attached, through_unit, wants_slope

AT_ONCE = 512  # classes in a chunk
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
    precision = log_vars.clamp(*log_var_clamp).neg().exp()
    return x.square() @ precision.T - 2 * x @ (m * precision).T + (m.square() * precision).sum(1)


def quick_distances(rows: Tensor, means: Tensor, log_vars: Tensor, *, log_var_clamp: Bounds) -> Tensor:
    """`distances`, with the gradients written down: nothing of the size (C, d) is kept or passed over twice.

    >>> rows, means, log_vars = torch.eye(2), torch.tensor([[0.0, 3.0]]), torch.tensor([[0.5, 8.0]])
    >>> torch.equal(*(f(rows, means, log_vars, log_var_clamp=(0, 6)) for f in (distances, quick_distances)))
    True
    """
    x, lengths = _unit(rows.detach())
    squares, found = x.square(), rows.new_empty(len(rows), len(means))
    for part, m, precision, _ in _chunks(means, log_vars, log_var_clamp):
        pulled = m * precision
        block = found[:, part]
        torch.addmm(pulled.mul(m).sum(1), x, pulled.T, alpha=-2, out=block)
        block.addmm_(squares, precision.T)
    if not wants_slope(rows, means, log_vars):
        return found

    def slopes(upstream: Tensor) -> list[Tensor]:
        """With W the slope by D: of x 2 (x * W / v - W (m / v)), of m 2 (W'1 * m - W'x) / v, of 1/v W'(x - m)^2."""
        of_means, of_log_vars = torch.empty_like(means), torch.empty_like(log_vars)
        spread, pull = torch.zeros_like(x), torch.zeros_like(x)
        for part, m, precision, mean_lengths in _chunks(means, log_vars, log_var_clamp):
            weights = upstream[:, part]
            spread.addmm_(weights, precision)
            pull.addmm_(weights, m * precision)
            drawn = weights.T @ x
            away = weights.sum(0)[:, None] * m
            away -= drawn  # W'1 * m - W'x
            of_precision = (weights.T @ squares).addcmul_(m, away).addcmul_(m, drawn, value=-1)
            logs = log_vars.detach()[part]
            free = (logs >= log_var_clamp[0]) & (logs <= log_var_clamp[1])
            torch.mul(of_precision.mul_(precision).neg_(), free, out=of_log_vars[part])
            of_means[part] = through_unit(away.mul_(precision).mul_(2), m, mean_lengths)
        of_rows = through_unit(x.mul(spread).sub_(pull).mul_(2), x, lengths)
        return [of_rows, of_means, of_log_vars]

    return attached(
        found,
        [rows, means, log_vars],
        slopes,
        lambda: distances(rows, means, log_vars, log_var_clamp=log_var_clamp),
    )


def _chunks(means: Tensor, log_vars: Tensor, bounds: Bounds) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
    """Some of the classes at a time: which, their unit means, 1 / v, and the lengths of the raw means (k, 1)."""
    means, log_vars = means.detach(), log_vars.detach()
    for start in range(0, len(means), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        m, lengths = _unit(means[part])
        yield part, m, log_vars[part].clamp(*bounds).neg_().exp_(), lengths


def _unit(rows: Tensor) -> tuple[Tensor, Tensor]:
    lengths = lengths_of(rows)
    return rows / lengths, lengths
