"""Log-sums over the negatives of each row, as definition and in closed form, and norm regularisers of raw rows."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from levelfield.labels import ClassTable, hide_, put_
from levelfield.objectives._closed import LOG2_E


def log_sum_exp(logits: Tensor, counted: Tensor) -> Tensor:
    """log sum_j exp(logits_ij) over the `counted` entries of each row; finite but meaningless in rows without any.

    >>> log_sum_exp(torch.tensor([[1000.0, 7.0], [0.0, 0.0]]), torch.tensor([[True, False], [True, True]]))
    tensor([1.0000e+03, 6.9315e-01])
    """
    none = ~counted.any(1, keepdim=True)  # an empty sum has slope NaN, even if it is unused
    return logits.masked_fill(~(counted | none), -torch.inf).logsumexp(1)


def log_one_plus_exp(logits: Tensor) -> Tensor:
    """log(1 + exp(z)) of each entry."""
    return functional.softplus(logits, threshold=40)  # torch's default threshold of 20 is visible in float64


class Negatives(NamedTuple):
    """`log_sum` (n, 1) over each row's negatives, -inf without any; its slope is `exponentials` / `total`."""

    log_sum: Tensor
    exponentials: Tensor  # (n, n), 0 at positives
    total: Tensor  # (n, 1), never 0


def negatives(matrix: Tensor, table: ClassTable, scale: float) -> Negatives:
    """log sum over negatives n of exp(scale * matrix_an); does not modify `matrix`. Base 2: fast for values of any
    size."""
    exponents = hide_(matrix * (scale * LOG2_E), table, -torch.inf)
    top = exponents.amax(1, keepdim=True).clamp_min_(torch.finfo(matrix.dtype).min)
    exponentials = exponents.sub_(top).exp2_()
    total = exponentials.sum(1, keepdim=True)
    log_sum = (total.log2() + top) / LOG2_E
    return Negatives(log_sum, exponentials, total.masked_fill_(total == 0, 1))


def against_negatives(
    similarity: Tensor, table: ClassTable, *, scale: float, divisor: float | Tensor
) -> tuple[Tensor, Tensor]:
    """log(1 + sum_n e^(scale (s_an - s_ap))) of each positive pair, as (n, k), and the slope of sum / divisor."""
    log_sum, slope, total = negatives(similarity, table, scale)
    excess = (log_sum - scale * similarity.gather(1, table.others)).masked_fill_(~table.valid, -torch.inf)
    share = excess.sigmoid().mul_(scale / divisor)
    slope.mul_(share.sum(1, keepdim=True).div_(total))
    return log_one_plus_exp(excess), put_(slope, table, -share)


def norms(rows: Tensor, power: int) -> Tensor:
    """|x|^power of each row (n,); power 1 or 2.

    >>> norms(torch.tensor([[3.0, 4.0]]), 2)
    tensor([25.])
    """
    return rows.square().sum(1) if power == 2 else torch.linalg.vector_norm(rows, dim=1)


def add_norms_slope_(gradient: Tensor, rows: Tensor, power: int, weight: float) -> Tensor:
    """Add `weight` times the gradient of the sum of `norms` to a gradient (n, d); 0 for a zero row."""
    if power == 2:
        return gradient.add_(rows, alpha=2 * weight)
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return gradient.addcdiv_(rows, length.masked_fill_(length == 0, torch.inf), value=weight)
