"""Labels of a batch: who is a positive of whom, as masks for the definitions and as a table for the closed forms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


def class_masks(labels: Tensor, anchors: int | None = None) -> tuple[Tensor, Tensor]:
    """Who is a positive and who a negative of whom: two boolean (n, n) matrices. No item is its own positive.

    anchors: the matrices have only the first so many rows.

    >>> positive, negative = class_masks(torch.tensor([7, 7, 2**40]))
    >>> positive.int().tolist(), negative.int().tolist()
    ([[0, 1, 0], [1, 0, 0], [0, 0, 0]], [[0, 0, 1], [0, 0, 1], [1, 1, 0]])
    """
    negative = labels[:anchors, None] != labels[None, :]
    return (~negative).fill_diagonal_(False), negative


class ClassTable(NamedTuple):
    """The class table: `others` (n, k) names the other members of each row's class, padded with the row itself.

    `valid` (n, k) says which entries are no padding, `counts` (n,) how many. k is the largest class less one, at
    least 1. In `order` (n,) the rows stand class by class, and `start` (n,) says where each row's class begins.
    A table of some anchors has only their rows; `order` always has all.
    """

    others: Tensor
    valid: Tensor
    counts: Tensor
    order: Tensor
    start: Tensor


def class_table(labels: Tensor, anchors: int | None = None) -> ClassTable:
    """The class table of a batch, or of its first `anchors`. The host reads one number, the size of the largest class.

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
    start = torch.searchsorted(ordered, labels[:anchors])  # where each row's class begins in this order
    counts = torch.searchsorted(ordered, labels[:anchors], right=True) - start - 1
    own = torch.empty_like(order).index_copy_(0, order, torch.arange(n, device=labels.device))[:anchors, None]
    column = torch.arange(max(1, int(counts.max())) if anchors else 1, device=labels.device)
    valid = column < counts[:, None]
    place = start[:, None] + column
    place += place >= own  # the row itself is left out
    return ClassTable(order[torch.where(valid, place, own)], valid, counts, order, start)


def _table_in_numpy(labels: Tensor, anchors: int) -> ClassTable:
    """The same in NumPy, whose small steps take a third of the time; in a batch of 100 that is felt."""
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
    """Overwrite the entries of positives and the diagonal, so that negatives alone are left."""
    return matrix.scatter_(1, table.others, value).fill_diagonal_(value)


def without_class_(block: Tensor, table: ClassTable, rows: slice, value: float) -> Tensor:
    """Overwrite the entries of positives and of the row itself in some rows of a matrix."""
    block.scatter_(1, table.others[rows], value).diagonal(rows.start).fill_(value)
    return block


def put_(matrix: Tensor, table: ClassTable, values: Tensor) -> Tensor:
    """Write `values` (n, k) to the entries of positives; the diagonal becomes 0 where the table is padded."""
    return matrix.scatter_(1, table.others, (values * table.valid).to(matrix.dtype))


def row_blocks(matrix: Tensor) -> Iterator[slice]:
    """Some rows at a time, so many that a block (1 MB) stays in the cache."""
    step = max(1, 2**18 // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), step):
        yield slice(start, min(len(matrix), start + step))
