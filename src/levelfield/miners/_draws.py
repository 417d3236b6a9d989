"""Draw one column per row, with one uniform number per row (never an n x n matrix of random numbers)."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.geometry import widest
from levelfield.labels import ClassTable, hide_, row_blocks, to_device

_BELOW_ONE = 1 - 2**-24  # in float32


def uniforms(count: int, like: Tensor, generator: torch.Generator) -> Tensor:
    """`count` numbers in [0, 1) on the device of `like`, in its widest type."""
    return in_widest(drawn_uniforms(count, generator), like.device)


def drawn_uniforms(count: int, generator: torch.Generator) -> Tensor:
    """`count` float64 numbers in [0, 1), drawn where the generator is, which is usually the host."""
    return torch.rand(count, generator=generator, dtype=torch.float64, device=generator.device)


def in_widest(uniform: Tensor, device: torch.device) -> Tensor:
    """Drawn numbers on `device`, in its widest type."""
    if widest(device) != uniform.dtype:
        uniform = uniform.float().clamp_max(_BELOW_ONE)  # rounding may give 1
    return to_device(uniform, device)


def kth(allowed: Tensor, rank: Tensor) -> Tensor:
    """Column of the `rank`-th (from 0) True in each row; meaningless where the row has fewer.

    >>> kth(torch.tensor([[True, False, True], [False, True, True]]), torch.tensor([1, 0]))
    tensor([2, 1])
    """
    running = allowed.cumsum(1, dtype=torch.int32)
    column = torch.searchsorted(running, (rank + 1).to(torch.int32)[:, None]).squeeze(1)
    return column.clamp_max(allowed.shape[1] - 1)


def draw_uniform(allowed: Tensor, generator: torch.Generator) -> Tensor:
    """In each row a uniformly drawn True column; meaningless in rows without any.

    >>> draw_uniform(torch.tensor([[False, True, False]]), torch.Generator().manual_seed(0))
    tensor([1])
    """
    count = allowed.sum(1)
    rank = (uniforms(len(allowed), allowed, generator) * count).long()
    return kth(allowed, torch.minimum(rank, count - 1))


def draw_positive(table: ClassTable, generator: torch.Generator) -> Tensor:
    """For each row a uniformly drawn other member of its class; the row itself where there is none."""
    rank = (uniforms(len(table.counts), table.counts, generator) * table.counts).long()  # below the count, or 0
    return table.others.gather(1, rank[:, None]).squeeze(1)


def negative_at(table: ClassTable, uniform: Tensor) -> Tensor:
    """Map a number in [0, 1) to a row of another class, for each row; meaningless if there is none.

    Uses all rows sorted by class without the row's own (contiguous) class, so that no matrix of negatives is needed.

    >>> from levelfield.labels import class_table
    >>> negative_at(class_table(torch.tensor([0, 1, 0, 1])), torch.tensor([0.0, 0.0, 0.5, 0.5]))
    tensor([1, 0, 3, 2])
    """
    class_size = table.counts + 1
    position = (uniform * (len(table.order) - class_size)).long()
    position += class_size * (position >= table.start)
    return table.order.index_select(0, position.clamp_max_(len(table.order) - 1))


def all_known(known: Tensor) -> bool:
    """Whether no row needs a fallback. Checked only on the CPU: elsewhere it would synchronise with the device."""
    return known.device.type == "cpu" and bool(known.all())


def draw_negative_between(
    matrix: Tensor, table: ClassTable, low: Tensor | None, high: Tensor | None, generator: torch.Generator
) -> Tensor:
    """For each row a uniformly drawn negative with low < entry < high (n, 1 each); any negative where there is none.

    Rows are processed in blocks that fit in the cache.
    """
    uniform = uniforms(len(matrix), matrix, generator)
    chosen = torch.empty(len(matrix), dtype=torch.int64, device=matrix.device)
    some_inside = torch.empty(len(matrix), dtype=torch.bool, device=matrix.device)
    for rows in row_blocks(matrix):
        # write comparisons as 0 and 1 into a float matrix: five times as fast as booleans
        block, inside = matrix[rows], torch.ones_like(matrix[rows])
        if low is not None:
            torch.gt(block, low[rows], out=inside)
        if high is not None:
            inside.mul_(torch.lt(block, high[rows], out=torch.empty_like(block)))
        running = hide_(inside, table, 0.0, rows).cumsum(1)
        some = running[:, -1].to(uniform.dtype)
        wanted = (uniform[rows] * some).floor_().minimum(some - 1).add_(1)
        torch.searchsorted(running, wanted.to(running.dtype)[:, None], out=chosen[rows, None])
        torch.gt(some, 0, out=some_inside[rows])
    return chosen if all_known(some_inside) else torch.where(some_inside, chosen, negative_at(table, uniform))


def one_each(table: ClassTable, *partners: Tensor) -> Tensor:
    """Tuples (t, 1 + partners), such as triplets, of the anchors that have both a positive and a negative."""
    counts = table.on_host.counts
    usable = (counts > 0) & (counts < len(table.order) - 1)
    anchors = torch.arange(len(counts), device=table.counts.device)
    return select_rows(torch.stack((anchors, *partners), 1), usable)


def select_rows(rows: Tensor, kept: Tensor) -> Tensor:
    """The rows that a mask on the host keeps."""
    return rows if kept.all() else rows.index_select(0, to_device(kept.nonzero()[:, 0], rows.device))


def no_triplets(like: Tensor) -> Tensor:
    return torch.empty((0, 3), dtype=torch.int64, device=like.device)
