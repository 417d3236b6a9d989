"""Angular loss in closed form: over all pairs of each class by small products, or pair by pair in blocks."""

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


def of_classes(similarity: Tensor, table: ClassTable, *, push: float, pull: float) -> Angles:
    """Loss over all positive pairs of rows sorted by class, small classes first.

    The sum over negatives of e^(push s_an) e^(push s_pn) is a matrix product within the class. Exponents are not
    shifted, so push * |s| must be moderate (below about 12 in float32): for unit rows, not raw ones.
    """
    slope = hide_(similarity * (push * LOG2_E), table, -torch.inf).exp2_()  # exponentials first
    sizes = table.on_host.counts
    pairs = max(1, int(sizes.sum()))
    value, active, start = similarity.new_zeros(()), table.counts.new_zeros(()), 0
    for others, rows in zip(*(found.tolist() for found in sizes.unique(return_counts=True)), strict=True):
        stop = start + rows
        within = _within(similarity, start, stop, others + 1)
        kept = _within(slope, start, stop, others + 1)
        step = max(1, _BLOCK // (len(similarity) * (others + 1)))
        classes = slope[start:stop].unflatten(0, (-1, others + 1)).split(step)  # (classes, size, n)
        for exponentials, own, into in zip(classes, within.split(step), kept.split(step), strict=True):
            sums = exponentials @ exponentials.mT
            excess = sums.log().sub_(own, alpha=pull)  # -inf without a negative
            excess.diagonal(dim1=1, dim2=2).fill_(-torch.inf)
            terms, share = log_one_plus_exp(excess), excess.sigmoid().div_(pairs)
            value, active = value + terms.sum(), active + (terms > 0).sum()
            both = share * (2 * push) / sums.masked_fill_(sums == 0, 1)
            exponentials.mul_(both @ exponentials)
            into.copy_(share.mul_(-pull))
        start = stop
    return Angles(value / pairs, slope, active)


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


def by_size(labels: Tensor) -> Tensor:
    """Order of the rows by class, small classes first.

    >>> by_size(torch.tensor([5, 9, 5, 7, 9, 5])).tolist()
    [3, 1, 4, 0, 2, 5]
    """
    ordered, order = labels.sort(stable=True)
    size = torch.searchsorted(ordered, ordered, right=True) - torch.searchsorted(ordered, ordered)
    return order[size.argsort(stable=True)]


def once_each(table: ClassTable) -> Tensor:
    """Every unordered positive pair, (N, 2).

    >>> from levelfield.labels import class_table
    >>> once_each(class_table(torch.tensor([0, 1, 0, 0]))).tolist()
    [[0, 2], [0, 3], [2, 3]]
    """
    others = table.on_host.others
    first, column = (others > torch.arange(len(others))[:, None]).nonzero().T
    return to_device(torch.stack((first, others[first, column]), 1), table.others.device)


def _within(matrix: Tensor, start: int, stop: int, size: int) -> Tensor:
    """Entries within each class of the given size, as a view (classes, size, size)."""
    square = matrix[start:stop, start:stop].unflatten(1, (-1, size)).unflatten(0, (-1, size))
    blocks: Tensor = square.diagonal(dim1=0, dim2=2).permute(2, 0, 1)
    return blocks
