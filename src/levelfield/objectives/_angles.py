"""The angular loss in closed form: over all pairs of each class by small products, or pair by pair in blocks."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from levelfield.geometry import Relatives
from levelfield.objectives._closed import hide_
from levelfield.objectives._log_sums import log_one_plus_exp

_PER_TWO = 1 / math.log(2)


class Angles(NamedTuple):
    """Mean of log(1 + sum_n e^(push (s_an + s_pn) - pull s_ap)) over pairs, its slope dL/ds (n, n), terms above 0."""

    value: Tensor
    slope: Tensor
    active: Tensor


def of_classes(similarity: Tensor, table: Relatives, *, push: float, pull: float) -> Angles:
    """Over all positive pairs of rows that stand class by class, classes of equal size side by side.

    The sum over strangers of e^(push s_an) e^(push s_pn) is a product within the class. Nothing is taken off the
    exponents, so push * |s| must be moderate (below about 12 in float32): unit rows, not raw ones.
    """
    exponentials = hide_(similarity * (push * _PER_TWO), table, -torch.inf).exp2_()
    slope = torch.empty_like(exponentials)
    pairs = max(1, int(table.counts.sum()))
    value, active = similarity.new_zeros(()), table.counts.new_zeros(())
    start = 0
    for others, rows in zip(*(found.tolist() for found in table.counts.unique(return_counts=True)), strict=True):
        size, stop = others + 1, start + rows
        own = exponentials[start:stop].unflatten(0, (-1, size))  # (classes, size, n)
        sums = own @ own.mT
        log_sums = sums.log()  # -inf where there is no stranger
        excess = log_sums - pull * _blocks(similarity, start, stop, size)
        excess.diagonal(dim1=1, dim2=2).fill_(-torch.inf)
        terms, share = log_one_plus_exp(excess), excess.sigmoid().div_(pairs)
        value, active = value + terms.sum(), active + (terms > 0).sum()
        torch.bmm((share * (2 * push)).div_(sums.masked_fill_(sums == 0, 1)), own, out=slope[start:stop].view_as(own))
        exponentials[start:stop].mul_(slope[start:stop])
        _blocks(exponentials, start, stop, size).copy_(share.mul_(-pull))
        start = stop
    return Angles(value / pairs, exponentials, active)


def of_pairs(similarity: Tensor, table: Relatives, pairs: Tensor, *, push: float, pull: float) -> Angles:
    """Over the pairs (N, 2) as listed, as many at a time as there are rows; safe for numbers of any size."""
    every = similarity * (push * _PER_TWO)
    strangers = hide_(every.clone(), table, -torch.inf)
    slope = torch.zeros_like(similarity)
    value, active = similarity.new_zeros(()), pairs.new_zeros(())
    count = max(1, len(pairs))
    for anchor, other in (block.T for block in pairs.split(len(similarity))):
        exponents = strangers.index_select(0, anchor).add_(every.index_select(0, other))
        top = exponents.amax(1, keepdim=True).clamp_min_(torch.finfo(exponents.dtype).min)
        total = exponents.sub_(top).exp2_().sum(1, keepdim=True)
        log_sum = ((total.log2() + top) / _PER_TWO).squeeze(1)
        excess = log_sum - pull * similarity[anchor, other]
        terms, share = log_one_plus_exp(excess), excess.sigmoid().div_(count)
        value, active = value + terms.sum(), active + (terms > 0).sum()
        exponents.mul_((share * push)[:, None] / total.masked_fill_(total == 0, 1))
        slope.index_add_(0, anchor, exponents).index_add_(0, other, exponents)
        slope.index_put_((anchor, other), -pull * share, accumulate=True)
    return Angles(value / count, slope, active)


def by_size(labels: Tensor) -> Tensor:
    """An order of the rows, class by class, small classes first.

    >>> by_size(torch.tensor([5, 9, 5, 7, 9, 5])).tolist()
    [3, 1, 4, 0, 2, 5]
    """
    ordered, order = labels.sort(stable=True)
    size = torch.searchsorted(ordered, ordered, right=True) - torch.searchsorted(ordered, ordered)
    return order[size.argsort(stable=True)]


def _blocks(matrix: Tensor, start: int, stop: int, size: int) -> Tensor:
    """The entries within each class of this size, as a view (classes, size, size)."""
    square = matrix[start:stop, start:stop].unflatten(1, (-1, size)).unflatten(0, (-1, size))
    return square.diagonal(dim1=0, dim2=2).permute(2, 0, 1)
