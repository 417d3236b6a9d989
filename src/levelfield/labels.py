"""Positives and negatives in a batch: masks for the definitions, a class table for the closed forms.

Labels on a device can have a copy on the host (`on_device`), so that shapes that depend on labels need no wait.
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

    Do not change the result in place: the copy would be out of date.

    >>> on_host(on_device(torch.tensor([5, 9]), "cpu"))
    tensor([5, 9])
    """
    return remember(to_device(labels, device), labels)


def remember(labels: Tensor, host: Tensor) -> Tensor:
    """Keep `host` as the copy of `labels` on the host."""
    if labels is not host:
        labels._host = host  # type: ignore[attr-defined]
    return labels


def on_host(labels: Tensor) -> Tensor:
    """The labels on the host. Waits for the device if they have no copy there."""
    if labels.device.type == "cpu":
        return labels
    host: Tensor | None = getattr(labels, "_host", None)
    if host is None:
        host = labels.cpu()
        if hasattr(labels, "_host"):
            remember(labels, host)
    return host


def labels_of_call(labels: Tensor) -> Tensor:
    """The labels as int64. Without a copy on the host, a view that gets one: its owner may change `labels` later."""
    labels = labels.long().contiguous()
    if labels.device.type == "cpu" or hasattr(labels, "_host"):
        return labels
    view = labels.view_as(labels)
    view._host = None  # type: ignore[attr-defined]
    return view


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
    """Class table of a batch, or of its first `anchors`. Computed on the host (see `on_host`), in NumPy, which takes a
    third of torch's time for small batches.

    >>> class_table(torch.tensor([5, 9, 5, 5])).others
    tensor([[2, 3],
            [1, 1],
            [0, 3],
            [0, 2]])
    """
    classes = on_host(labels).numpy()
    order = classes.argsort(kind="stable")
    ordered, asked = classes[order], classes[:anchors]
    start = ordered.searchsorted(asked)
    counts = ordered.searchsorted(asked, side="right") - start - 1
    row = order.argsort()[:anchors, None]  # position of each row in the order
    column = np.arange(max(1, counts.max(initial=0)))
    valid = column < counts[:, None]
    position = start[:, None] + column
    position += position >= row  # skip the row itself
    others = order[np.where(valid, position, row)]
    host = ClassTable._make([*map(torch.from_numpy, (others, valid, counts, order, start)), None])
    if labels.device.type == "cpu":
        return host
    return ClassTable._make([*(to_device(tensor, labels.device) for tensor in host[:5]), host])


def hide_(matrix: Tensor, table: ClassTable, value: float, rows: slice = slice(0, None)) -> Tensor:
    """Overwrite the entries of positives and the diagonal, so that only negatives are left; `rows`: those of a matrix
    that `matrix` is a block of."""
    matrix.scatter_(1, table.others[rows], value).diagonal(rows.start).fill_(value)
    return matrix


def put_(matrix: Tensor, table: ClassTable, values: Tensor) -> Tensor:
    """Write `values` (n, k) to the entries of positives; the diagonal becomes 0 where the table is padded."""
    return matrix.scatter_(1, table.others, (values * table.valid).to(matrix.dtype))


def row_blocks(matrix: Tensor) -> Iterator[slice]:
    """Split the rows into blocks of 1 MB, which fit in the cache."""
    step = max(1, 2**18 // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), step):
        yield slice(start, min(len(matrix), start + step))
