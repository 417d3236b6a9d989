"""Positives and negatives in a batch: masks for the definitions, a class table for the closed forms.

Labels on a device can keep their copy on the host (`on_device`), so that shapes that depend on labels need no wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor of the host to `device` without waiting for it.

    On CUDA a copy from pageable memory is staged before the call returns; elsewhere the copy may read freed memory.
    """
    target = torch.device(device)
    return tensor.to(target, non_blocking=target.type == "cuda")


def on_device(labels: Tensor, device: torch.device | str) -> Tensor:
    """Labels of the host on `device`, with their copy on the host, which makes later calls of `on_host` free.

    >>> on_host(on_device(torch.tensor([5, 9]), "cpu"))
    tensor([5, 9])
    """
    return remember(to_device(labels, device), labels)


def remember(labels: Tensor, host: Tensor) -> Tensor:
    """Keep `host` as the copy of `labels` on the host, until `labels` are changed in place."""
    if labels is not host and not labels.is_inference():  # of inference tensors torch counts no changes
        labels._host = labels._version, host  # type: ignore[attr-defined]
    return labels


def host_copy(labels: Tensor) -> Tensor | None:
    """The labels on the host; None if that needs a wait for the device."""
    if labels.device.type == "cpu":
        return labels
    version, host = getattr(labels, "_host", (None, None))
    return None if version is None or version != labels._version else host


def on_host(labels: Tensor) -> Tensor:
    """The labels on the host. Waits for the device if they have no copy there, once."""
    host = host_copy(labels)
    if host is None:
        host = labels.cpu()
        remember(labels, host)
    return host


def class_masks(labels: Tensor, anchors: int | None = None) -> tuple[Tensor, Tensor]:
    """Masks of positives and negatives: two boolean (n, n) matrices. No item is its own positive.

    anchors: number of rows of the matrices; default: all.

    >>> positive, negative = class_masks(torch.tensor([7, 7, 2**40]))
    >>> positive.int().tolist(), negative.int().tolist()
    ([[0, 1, 0], [1, 0, 0], [0, 0, 0]], [[0, 0, 1], [0, 0, 1], [1, 1, 0]])
    """
    negative = labels[:anchors, None] != labels[None, :]
    return (~negative).fill_diagonal_(False), negative


def positive_pairs(labels: Tensor, anchors: int | None = None) -> Tensor:
    """Every positive pair (anchor, other), lexicographic (p, 2).

    >>> positive_pairs(torch.tensor([7, 7, 2])).tolist()
    [[0, 1], [1, 0]]
    """
    return to_device(class_masks(on_host(labels), anchors)[0].nonzero(), labels.device)


class ClassTable(NamedTuple):
    """Class table: `others` (n, k) lists the other members of each row's class, padded with the row itself.

    `valid` (n, k) marks entries that are not padding; `counts` (n,) is their number. k is the size of the largest class
    minus one, at least 1. `order` (n,) lists the rows class by class, and `start` (n,) is the position where each row's
    class begins. A table of some anchors has only their rows; `order` always has all rows. `host` is the same table on
    the CPU, for shapes; None: this one.
    """

    others: Tensor
    valid: Tensor
    counts: Tensor
    order: Tensor
    start: Tensor
    host: ClassTable | None = None

    @property
    def on_host(self) -> ClassTable:
        return self.host or self


def class_table(labels: Tensor, anchors: int | None = None) -> ClassTable:
    """Class table of a batch, or of its first `anchors`. Computed on the host, see `on_host`.

    >>> class_table(torch.tensor([5, 9, 5, 5])).others
    tensor([[2, 3],
            [1, 1],
            [0, 3],
            [0, 2]])
    """
    table = _table_in_numpy(on_host(labels).numpy(), len(labels) if anchors is None else anchors)
    if labels.device.type == "cpu":
        return table
    tensors = (table.others, table.valid, table.counts, table.order, table.start)
    others, valid, counts, order, start = (to_device(tensor, labels.device) for tensor in tensors)
    return ClassTable(others, valid, counts, order, start, table)


def _table_in_numpy(labels: np.ndarray, anchors: int) -> ClassTable:
    """Three times as fast as torch for small batches."""
    order = labels.argsort(kind="stable")
    ordered = labels[order]
    start = ordered.searchsorted(labels[:anchors])
    counts = ordered.searchsorted(labels[:anchors], side="right") - start - 1
    own = np.empty_like(order)
    own[order] = np.arange(len(order))
    column = np.arange(max(1, counts.max(initial=0)))
    valid = column < counts[:, None]
    position = start[:, None] + column
    own = own[:anchors, None]
    position += position >= own  # skip the row itself
    others = order[np.where(valid, position, own)]
    to_torch = torch.from_numpy
    return ClassTable(to_torch(others), to_torch(valid), to_torch(counts), to_torch(order), to_torch(start))


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
