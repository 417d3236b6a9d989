"""Distances of rows to one normal distribution per class (lim2022 section 3.1), without a rows x classes x dim tensor.

The square is expanded, so that a distance is two matrix products. `distances` is the definition; `quick_distances`
computes the same with its gradients in chunks of classes that fit in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from levelfield.geometry import Geometry, lengths_of, unit
from levelfield.objectives._closed import LOG2_E, attached, through_unit, wants_slope

AT_ONCE = 512  # classes in a chunk
Bounds = tuple[float, float]


def distances(rows: Tensor, means: Tensor, log_vars: Tensor | None, *, log_var_clamp: Bounds) -> Tensor:
    """D_ic = sum_f (x_if - m_cf)^2 / v_cf (b, C): squared distances of unit rows x and unit means m, v = exp(clamped
    log_vars).

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
    """`distances` with explicit gradients and as few passes over (C, d) arrays as possible.

    >>> rows, means, log_vars = torch.eye(2), torch.tensor([[0.0, 3.0]]), torch.tensor([[0.5, 8.0]])
    >>> torch.allclose(*(f(rows, means, log_vars, log_var_clamp=(0, 6)) for f in (distances, quick_distances)))
    True
    """
    inputs = [rows, means, log_vars]
    wanted = wants_slope(*inputs)
    with torch.no_grad():
        found = _Distances(rows, means, log_vars, log_var_clamp, way_back=wanted)
    if not wanted:
        return found.matrix.T
    return attached(
        found.matrix.T, inputs, found.back, lambda: distances(rows, means, log_vars, log_var_clamp=log_var_clamp)
    )


class _Distances:
    """D as `matrix` (C, b), and its backward pass.

    Means are never normalised: results are divided by their lengths. With `way_back`, 1/v and mean/v are stored in the
    buffers of the gradients of log_vars and means, which avoids recomputation and extra memory.
    """

    def __init__(self, rows: Tensor, means: Tensor, log_vars: Tensor, bounds: Bounds, *, way_back: bool) -> None:
        self.means, self.log_vars, self.bounds, self.lengths = means, log_vars, bounds, lengths_of(rows)
        self.x = rows / self.lengths
        self.squares = self.x.square()
        self.inverse = lengths_of(means).reciprocal_()  # 1 / |mean| (C, 1)
        self.energy = torch.empty_like(self.inverse)  # sum mean^2 / v (C, 1)
        self.matrix = rows.new_empty(len(means), len(rows))
        self.across = rows.new_empty(len(means) if way_back else min(AT_ONCE, len(means)), len(rows))  # mean/v . x
        self.rooms = self._rooms(len(means)) if way_back else None
        rooms, scratch = self.rooms or self._rooms(AT_ONCE), self._scratch()
        for part in self._parts():
            mean, inverse, energy = means[part], self.inverse[part], self.energy[part]
            place = part if way_back else slice(0, len(mean))
            across, pulled, precision = self.across[place], rooms[0][place], rooms[1][place]
            self._fill(mean, log_vars[part], pulled, precision)
            torch.sum(torch.mul(mean, pulled, out=scratch[: len(mean)]), 1, keepdim=True, out=energy)
            torch.mm(pulled, self.x.T, out=across)
            offset = (energy * inverse).mul_(inverse)
            block = torch.addcmul(offset, across, inverse, value=-2, out=self.matrix[part])
            block.addmm_(precision, self.squares.T)

    def back(self, slope: Tensor) -> list[Tensor]:
        """Gradients of rows, means and log_vars from the slope (b, C), here W'.

        Of x it is 2 (x * W'/v - W'(m/v)), of m 2 (W1 * m - W x) / v, of 1/v W (x - m)^2.
        """
        of_means, of_log_vars = self._taken_rooms()
        buffer = self.across.new_empty(min(AT_ONCE, len(self.means)), len(self.x))
        spread, of_x = torch.empty_like(self.x), torch.empty_like(self.x)
        logs_scratch, mean_scratch = self._scratch(), self._scratch()
        for part in self._parts():
            mean, inverse, pulled, precision = self.means[part], self.inverse[part], of_means[part], of_log_vars[part]
            weights, kept = buffer[: len(mean)].copy_(slope[:, part].T), 1 if part.start else 0
            of_logs, of_mean = logs_scratch[: len(mean)], mean_scratch[: len(mean)]
            spread.addmm_(weights.T, precision, beta=kept, alpha=2)
            torch.addmm(of_logs, weights, self.squares, beta=0, alpha=-1, out=of_logs)
            length = weights.sum(1, keepdim=True).mul_(inverse).mul_(inverse)
            weights *= inverse
            of_x.addmm_(weights.T, pulled, beta=kept, alpha=-2)
            torch.mul(length, mean, out=of_mean).addmm_(weights, self.x, alpha=-2)  # (W1 m - 2 W x) / |mean|
            of_logs.addcmul_(mean, of_mean, value=-1).mul_(precision)  # - W (x - m)^2 / v
            of_mean.addcmul_(length, mean)  # 2 (W1 m - W x) / |mean|
            # Subtract the component along the mean; its product is already known.
            inward = length.mul_(self.energy[part]).sub_(weights.mul_(self.across[part]).sum(1, keepdim=True))
            inward.mul_(inverse).mul_(inverse)
            torch.mul(of_mean, precision, out=pulled).addcmul_(inward, mean, value=-2)
            _through_clamp(of_logs, self.log_vars[part], self.bounds, out=precision)
        return [through_unit(of_x.addcmul_(spread, self.x), self.x, self.lengths), of_means, of_log_vars]

    def _parts(self) -> Iterator[slice]:
        return (slice(start, min(start + AT_ONCE, len(self.means))) for start in range(0, len(self.means), AT_ONCE))

    def _rooms(self, classes: int) -> tuple[Tensor, Tensor]:
        shape = min(classes, len(self.means)), self.means.shape[1]
        return self.means.new_empty(shape), self.means.new_empty(shape)

    def _taken_rooms(self) -> tuple[Tensor, Tensor]:
        """mean/v and 1/v in writable buffers: those of the forward pass, or new ones if they are gone."""
        rooms, self.rooms = self.rooms, None
        if rooms is None:
            rooms = self._rooms(len(self.means))
            for part in self._parts():
                self._fill(self.means[part], self.log_vars[part], rooms[0][part], rooms[1][part])
        return rooms

    def _fill(self, means: Tensor, log_vars: Tensor, pulled: Tensor, precision: Tensor) -> None:
        torch.clamp(log_vars, *self.bounds, out=precision).mul_(-LOG2_E).exp2_()
        torch.mul(means, precision, out=pulled)

    def _scratch(self) -> Tensor:
        """Buffer for one chunk, reused by all chunks: allocating memory costs more than the computation."""
        return self.means.new_empty(min(AT_ONCE, len(self.means)), self.means.shape[1])


def _through_clamp(gradient: Tensor, values: Tensor, bounds: Bounds, *, out: Tensor) -> None:
    """Gradient of clamped values, 0 at and beyond the bounds, in one pass."""
    torch.ops.aten.hardtanh_backward.grad_input(gradient, values, *bounds, grad_input=out)
