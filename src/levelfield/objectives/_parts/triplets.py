"""Hinges over all triplets of a matrix without listing them: value and slope in O(n^2) memory.

[m_ap - m_an + margin]+ is positive if m_an is below the limit m_ap + margin. So only two counts matter: the number of
an anchor's limits above each entry, and the number of negatives below each limit.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from levelfield.labels import ClassTable, put_, row_blocks, without_class_

LOOPED = 24  # up to this many positives, comparing each is faster than sorting


class Hinges(NamedTuple):
    """Sum of the hinges, its slope (n, n) by the matrix, the number above 0, and the total number."""

    total: Tensor
    slope: Tensor
    active: Tensor
    listed: Tensor


def all_hinges(matrix: Tensor, table: ClassTable, *, margin: float, band: bool = False) -> Hinges:
    """Hinges over all triplets, or with `band` over those whose negative is at most `margin` farther than the positive.

    >>> from levelfield.labels import class_table
    >>> distances = torch.tensor([[0., 1., 3.], [1., 0., 1.], [3., 1., 0.]])
    >>> hinges = all_hinges(distances, class_table(torch.tensor([0, 0, 1])), margin=0.5)
    >>> hinges.total, hinges.active, hinges.listed
    (tensor(0.5000), tensor(1), tensor(2))
    """
    n = len(matrix)
    near = torch.where(table.valid, matrix.gather(1, table.others), -torch.inf)  # distance to each positive
    limits = near + margin
    slope, below = torch.empty_like(matrix), torch.zeros_like(limits)
    total, count = matrix.new_zeros(()), torch.zeros((), dtype=torch.int64, device=matrix.device)
    for rows in row_blocks(matrix):
        negatives = without_class_(matrix[rows].clone(), table, rows, torch.inf)
        above_entry, below[rows] = count_below(negatives, limits[rows], out=slope[rows])
        if band:
            # negatives as near as the positive, or nearer, are not in the band
            nearer, fewer = count_below(negatives, near[rows], closed=True)
            above_entry -= nearer
            below[rows] -= fewer
            closed_band, _ = count_below(negatives, limits[rows], closed=True)
            count += (closed_band.sum() - nearer.sum()).long()
        total -= torch.dot(above_entry.view(-1), matrix[rows].reshape(-1))
    total += (below * limits.masked_fill(~table.valid, 0)).sum()
    if not band:
        counts = table.counts
        count = (counts * (n - 1 - counts)).sum()
    return Hinges(total, put_(slope.neg_(), table, below), below.sum().long(), count)


def count_below(
    entries: Tensor, limits: Tensor, *, closed: bool = False, out: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Number of limits of its row above each entry (r, n), and number of entries below each limit (r, k).

    closed: an entry equal to a limit counts as below it.

    >>> count_below(torch.tensor([[1.0, 2.0, 9.0]]), torch.tensor([[2.0, 3.0]]))
    (tensor([[2., 1., 0.]]), tensor([[1., 2.]]))
    """
    above = torch.empty_like(entries) if out is None else out
    if limits.shape[1] > LOOPED:
        ordered, order = limits.sort(1)
        passed = torch.searchsorted(ordered, entries, right=not closed)  # limits not above the entry
        above.copy_(limits.shape[1] - passed)
        met = torch.zeros(len(limits), limits.shape[1] + 1, dtype=entries.dtype, device=entries.device)
        met.scatter_add_(1, passed, torch.ones_like(entries))
        return above, torch.empty_like(limits).scatter_(1, order, met.cumsum(1)[:, :-1])
    compare = torch.le if closed else torch.lt
    buffer = torch.empty_like(entries)
    below = torch.empty_like(limits)
    above.zero_()
    for k, limit in enumerate(limits.T):
        compare(entries, limit[:, None], out=buffer)
        below[:, k] = buffer.sum(1)
        above += buffer
    return above, below
