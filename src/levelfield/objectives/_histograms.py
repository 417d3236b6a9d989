"""Soft histograms: every value is split between its two neighbouring nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from levelfield.labels import row_blocks


def soft_counts(position: Tensor, counted: Tensor, nodes: int) -> Tensor:
    """Histograms (m, nodes) of the rows of `position` (m, n), given in units of nodes.

    A value r + w adds 1 - w to node r and w to node r + 1; beyond the last node the line is extrapolated.

    >>> soft_counts(torch.tensor([[0.25, 1.0, 2.0]]), torch.tensor([[True, True, True]]), 3)
    tensor([[0.7500, 1.2500, 1.0000]])
    """
    lower = node_below_(position.detach().clone(), nodes)
    share, index = position - lower, lower.long()
    empty = position.new_zeros(len(position), nodes)
    return empty.scatter_add(1, index, (1 - share) * counted).scatter_add(1, index + 1, share * counted)


def node_below_(position: Tensor, nodes: int) -> Tensor:
    """The lower node of each value, in place; the node of NaN is 0, and its share stays NaN.

    >>> node_below_(torch.tensor([-0.1, 1.5, 9.0, torch.nan]), 5)
    tensor([0., 1., 3., 0.])
    """
    torch.fmax(position.floor_(), position.new_zeros(()), out=position)
    return position.clamp_max_(nodes - 2)


class Tally(NamedTuple):
    """A block of rows: the node of each entry, and the count and sum of shares between adjacent nodes."""

    rows: slice
    block: Tensor  # (m, n), may be overwritten
    lower: Tensor  # (m, n), the node below each entry
    counts: Tensor  # (m, nodes - 1)
    shares: Tensor  # (m, nodes - 1)

    def histograms(self) -> Tensor:
        """The histograms of `soft_counts` (m, nodes)."""
        upper = functional.pad(self.shares, (1, 0))
        return functional.pad(self.counts - self.shares, (0, 1)).add_(upper)


def tallies(position: Tensor, nodes: int) -> Iterator[Tally]:
    """Histograms of a large matrix without gradients, in blocks of rows; overwrites `position`."""
    one = position.new_ones(())
    for rows in row_blocks(position):  # index matrices of full size are slow to allocate
        block = position[rows]
        lower = node_below_(block.clone(), nodes)
        index = lower.long()
        share = torch.sub(block, lower, out=lower)
        counts = block.new_zeros(len(block), nodes - 1).scatter_add_(1, index, one.expand(block.shape))
        shares = torch.zeros_like(counts).scatter_add_(1, index, share)
        yield Tally(rows, block, index, counts, shares)
