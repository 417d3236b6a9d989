"""Positives and negatives in a batch: masks for the definitions, a class table for the closed forms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


def class_masks(labels: Tensor, anchors: int | None = None) -> tuple[Tensor, Tensor]:
    """Masks of positives and negatives: two boolean (n, n) matrices. No item is its own positive.

    anchors: number of rows of the matrices; default: all.

    >>> positive, negative = class_masks(torch.tensor([7, 7, 2**40]))
    >>> positive.int().tolist(), negative.int().tolist()
    ([[0, 1, 0], [1, 0, 0], [0, 0, 0]], [[0, 0, 1], [0, 0, 1], [1, 1, 0]])
    """
    negative = labels[:anchors, None] != labels[None, :]
    return (~negative).fill_diagonal_(False), negative


class ClassTable(NamedTuple):
    """Class table: `others` (n, k) lists the other members of each row's class, padded with the row itself.

    `valid` (n, k) marks entries that are not padding; `counts` (n,) is their number. k is the size of the largest class
    minus one, at least 1. `order` (n,) lists the rows class by class, and `start` (n,) is the position where each row's
    class begins. A table of some anchors has only their rows; `order` always has all rows.
    """

    others: Tensor
    valid: Tensor
    counts: Tensor
    order: Tensor
    start: Tensor


def class_table(labels: Tensor, anchors: int | None = None) -> ClassTable:
    """Class table of a batch, or of its first `anchors`. Only one number is copied to the host: the largest class size.

    >>> class_table(torch.tensor([5, 9, 5, 5])).others
    tensor([[2, 3],
            [1, 1],
            [0, 3],
            [0, 2]])
    """
    made = _table_in_numpy if labels.device.type == "cpu" else _table_in_torch
    return made(labels, len(labels) if anchors is None else anchors)


def _table_in_torch(labels: Tensor, anchors: int) -> ClassTable:
    n = len(labels)
    ordered, order = labels.sort(stable=True)
    start = torch.searchsorted(ordered, labels[:anchors])  # where each row's class begins in `order`
    counts = torch.searchsorted(ordered, labels[:anchors], right=True) - start - 1
    own = torch.empty_like(order).index_copy_(0, order, torch.arange(n, device=labels.device))[:anchors, None]
    column = torch.arange(max(1, int(counts.max())) if anchors else 1, device=labels.device)
    valid = column < counts[:, None]
    place = start[:, None] + column
    place += place >= own  # skip the row itself
    return ClassTable(order[torch.where(valid, place, own)], valid, counts, order, start)


def _table_in_numpy(labels: Tensor, anchors: int) -> ClassTable:
    """NumPy version, three times as fast for small batches."""
    given = labels.numpy()
    order = given.argsort(kind="stable")
    ordered = given[order]
    start = ordered.searchsorted(given[:anchors])
    counts = ordered.searchsorted(given[:anchors], side="right") - start - 1
    own = np.empty_like(order)
    own[order] = np.arange(len(order))
    column = np.arange(max(1, counts.max(initial=0)))
    valid = column < counts[:, None]
    place = start[:, None] + column
    own = own[:anchors, None]
    place += place >= own
    others = order[np.where(valid, place, own)]
    return ClassTable(*map(torch.from_numpy, (others, valid, counts, order, start)))


def hide_(matrix: Tensor, table: ClassTable, value: float) -> Tensor:
    """Overwrite the entries of positives and the diagonal, so that only negatives are left."""
    return matrix.scatter_(1, table.others, value).fill_diagonal_(value)


def without_class_(block: Tensor, table: ClassTable, rows: slice, value: float) -> Tensor:
    """Overwrite the entries of positives and of the row itself in some rows of a matrix."""
    block.scatter_(1, table.others[rows], value).diagonal(rows.start).fill_(value)
    return block


def put_(matrix: Tensor, table: ClassTable, values: Tensor) -> Tensor:
    """Write `values` (n, k) to the entries of positives; the diagonal becomes 0 where the table is padded."""
    return matrix.scatter_(1, table.others, (values * table.valid).to(matrix.dtype))


def row_blocks(matrix: Tensor) -> Iterator[slice]:
    """Split the rows into blocks of 1 MB, which fit in the cache."""
    step = max(1, 2**18 // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), step):
        yield slice(start, min(len(matrix), start + step))
