"""Soft histograms: every value is shared between the two nodes it lies between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from levelfield.labels import row_blocks


def soft_counts(position: Tensor, counted: Tensor, nodes: int) -> Tensor:
    """Histograms (m, nodes) of the rows of `position` (m, n), given in units of nodes.

    A value r + w puts 1 - w on node r and w on node r + 1; beyond the last node the line is simply continued.

    >>> soft_counts(torch.tensor([[0.25, 1.0, 2.0]]), torch.tensor([[True, True, True]]), 3)
    tensor([[0.7500, 1.2500, 1.0000]])
    """
    lower = node_below_(position.detach().clone(), nodes)
    share, index = position - lower, lower.long()
    empty = position.new_zeros(len(position), nodes)
    return empty.scatter_add(1, index, (1 - share) * counted).scatter_add(1, index + 1, share * counted)


def node_below_(position: Tensor, nodes: int) -> Tensor:
    """The node from which a value is counted, written over it; that of a nan is 0, and its share stays nan.

    >>> node_below_(torch.tensor([-0.1, 1.5, 9.0, torch.nan]), 5)
    tensor([0., 1., 3., 0.])
    """
    torch.fmax(position.floor_(), position.new_zeros(()), out=position)
    return position.clamp_max_(nodes - 2)


class Tally(NamedTuple):
    """A block of rows: where each entry lies, and the number and the sum of shares between each two nodes."""

    rows: slice
    block: Tensor  # (m, n), the caller's to overwrite
    lower: Tensor  # (m, n), the node below each entry
    counts: Tensor  # (m, nodes - 1)
    shares: Tensor  # (m, nodes - 1)

    def histograms(self) -> Tensor:
        """As `soft_counts` (m, nodes)."""
        upper = functional.pad(self.shares, (1, 0))
        return functional.pad(self.counts - self.shares, (0, 1)).add_(upper)


def tallies(position: Tensor, nodes: int) -> Iterator[Tally]:
    """The same for a large matrix without gradients, block by block of rows; `position` is overwritten."""
    one = position.new_ones(())
    for rows in row_blocks(position):  # index matrices of full size are slow to allocate
        block = position[rows]
        lower = node_below_(block.clone(), nodes)
        index = lower.long()
        share = torch.sub(block, lower, out=lower)
        counts = block.new_zeros(len(block), nodes - 1).scatter_add_(1, index, one.expand(block.shape))
        shares = torch.zeros_like(counts).scatter_add_(1, index, share)
        yield Tally(rows, block, index, counts, shares)
