"""Angular loss in closed form, pair by pair in blocks."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from levelfield.labels import ClassTable, hide_, to_device
from levelfield.objectives._parts.closed import LOG2_E
from levelfield.objectives._parts.sums import log_one_plus_exp

_BLOCK = 2**18  # values at a time, to fit in the cache


class Angles(NamedTuple):
    """Mean of log(1 + sum_n e^(push (s_an + s_pn) - pull s_ap)) over pairs, its slope dL/ds (n, n), and the number of
    terms above 0."""

    value: Tensor
    slope: Tensor
    active: Tensor


def of_pairs(similarity: Tensor, table: ClassTable, pairs: Tensor, *, push: float, pull: float) -> Angles:
    """Loss over the listed pairs (N, 2); safe for values of any size."""
    negatives = hide_(similarity * (push * LOG2_E), table, -torch.inf)
    slope = torch.zeros_like(similarity)
    value, active = similarity.new_zeros(()), pairs.new_zeros(())
    count = max(1, len(pairs))
    for anchor, other in (block.T for block in pairs.split(max(1, _BLOCK // len(similarity)))):
        exponents = negatives.index_select(0, anchor).add_(similarity.index_select(0, other), alpha=push * LOG2_E)
        top = exponents.amax(1, keepdim=True).clamp_min_(torch.finfo(exponents.dtype).min)
        total = exponents.sub_(top).exp2_().sum(1, keepdim=True)
        log_sum = ((total.log2() + top) / LOG2_E).squeeze(1)
        excess = log_sum - pull * similarity[anchor, other]
        terms, share = log_one_plus_exp(excess), excess.sigmoid().div_(count)
        value, active = value + terms.sum(), active + (terms > 0).sum()
        exponents.mul_((share * push)[:, None] / total.masked_fill_(total == 0, 1))
        slope.index_add_(0, anchor, exponents).index_add_(0, other, exponents)
        slope.index_put_((anchor, other), -pull * share, accumulate=True)
    return Angles(value / count, slope, active)


def once_each(table: ClassTable) -> Tensor:
    """Every unordered positive pair, (N, 2).

    >>> from levelfield.labels import class_table
    >>> once_each(class_table(torch.tensor([0, 1, 0, 0]))).tolist()
    [[0, 2], [0, 3], [2, 3]]
    """
    others = table.on_host.others
    first, column = (others > torch.arange(len(others))[:, None]).nonzero().T
    return to_device(torch.stack((first, others[first, column]), 1), table.others.device)
