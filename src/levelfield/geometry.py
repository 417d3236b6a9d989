"""Similarities and distances between rows and columns, each computed once, on demand, with finite gradients."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

TINY = 1e-12  # a row no longer than this counts as the zero row
_HALVES = (torch.float16, torch.bfloat16)


def working(rows: Tensor) -> Tensor:
    """Half precision is computed in float32: exponentials and squares overflow there."""
    return rows.float() if rows.dtype in _HALVES else rows


def unit(rows: Tensor) -> Tensor:
    """Every row divided by its length; a zero row stays zero and gets gradient 0, not 1e12.

    rows: (n, d)

    >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    return rows / lengths_of(rows)


def lengths_of(rows: Tensor) -> Tensor:
    """Lengths (n, 1); a zero row counts as infinitely long, so that dividing by it gives 0."""
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return length.masked_fill(length <= TINY, torch.inf)


def related(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Who is a positive and who a negative of whom: two boolean (n, n) matrices. No item is its own positive.

    >>> positive, negative = related(torch.tensor([7, 7, 2**40]))
    >>> positive.int().tolist(), negative.int().tolist()
    ([[0, 1, 0], [1, 0, 0], [0, 0, 0]], [[0, 0, 1], [0, 0, 1], [1, 1, 0]])
    """
    negative = labels[:, None] != labels[None, :]
    return (~negative).fill_diagonal_(False), negative


class Relatives(NamedTuple):
    """The class table: `others` (n, k) names the other members of each row's class, padded with the row itself.

    `valid` (n, k) says which entries are no padding, `counts` (n,) how many. k is the largest class less one, at
    least 1.
    """

    others: Tensor
    valid: Tensor
    counts: Tensor


def relatives(labels: Tensor) -> Relatives:
    """The class table of a batch. The one number the host reads is the size of the largest class.

    >>> relatives(torch.tensor([5, 9, 5, 5])).others
    tensor([[2, 3],
            [1, 1],
            [0, 3],
            [0, 2]])
    """
    return _relatives_in_numpy(labels) if labels.device.type == "cpu" else _relatives_in_torch(labels)


def _relatives_in_torch(labels: Tensor) -> Relatives:
    n = len(labels)
    ordered, order = labels.sort(stable=True)
    start = torch.searchsorted(ordered, labels)  # where each row's class begins in this order
    counts = torch.searchsorted(ordered, labels, right=True) - start - 1
    own = torch.empty_like(order).index_copy_(0, order, torch.arange(n, device=labels.device))[:, None]
    column = torch.arange(max(1, int(counts.max())) if n else 1, device=labels.device)
    valid = column < counts[:, None]
    place = start[:, None] + column
    place += place >= own  # the row itself is left out
    return Relatives(order[torch.where(valid, place, own)], valid, counts)


def _relatives_in_numpy(labels: Tensor) -> Relatives:
    """The same in NumPy, whose small steps take a third of the time; in a batch of 100 that is felt."""
    given = labels.numpy()
    order = given.argsort(kind="stable")
    ordered = given[order]
    start = ordered.searchsorted(given)
    counts = ordered.searchsorted(given, side="right") - start - 1
    own = np.empty_like(order)
    own[order] = np.arange(len(order))
    column = np.arange(max(1, counts.max(initial=0)))
    valid = column < counts[:, None]
    place = start[:, None] + column
    place += place >= own[:, None]
    others = order[np.where(valid, place, own[:, None])]
    return Relatives(torch.from_numpy(others), torch.from_numpy(valid), torch.from_numpy(counts))


def hide_(matrix: Tensor, table: Relatives, value: float) -> Tensor:
    """Overwrite the entries of relatives and the diagonal, so that strangers alone are left."""
    return matrix.scatter_(1, table.others, value).fill_diagonal_(value)


def without_class_(block: Tensor, table: Relatives, rows: slice, value: float) -> Tensor:
    """Overwrite the entries of relatives and of the row itself in some rows of a matrix."""
    own = torch.arange(rows.start, rows.stop, device=block.device)[:, None]
    return block.scatter_(1, table.others[rows], value).scatter_(1, own, value)


def put_(matrix: Tensor, table: Relatives, values: Tensor) -> Tensor:
    """Write `values` (n, k) to the entries of relatives; the diagonal becomes 0 where the table is padded."""
    return matrix.scatter_(1, table.others, (values * table.valid).to(matrix.dtype))


def row_blocks(matrix: Tensor) -> Iterator[slice]:
    """Some rows at a time, so many that a block (1 MB) stays in the cache."""
    step = max(1, 2**18 // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), step):
        yield slice(start, min(len(matrix), start + step))


def _root(squared: Tensor, coincident: Tensor) -> Tensor:
    """The root, of 1 where points coincide: its slope there would be infinite, and infinity times 0 is nan."""
    return squared.masked_fill(coincident, 1).sqrt().masked_fill(coincident, 0)


def gather(embeddings: Tensor, labels: Tensor, indices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What the objective sees of a batch spread over processes; with one process, the batch itself."""
    return embeddings, labels, indices


class Geometry:
    """Rows against columns (n, d) x (m, d): one batch with itself, with proxies, support with query.

    Without `columns` the rows are compared with themselves and the distance's diagonal is exactly 0. With
    `normalize` both sides are first brought to unit length. Memory: O(n * m) for each matrix that is asked for.

    >>> geometry = Geometry(torch.tensor([[2.0, 0.0], [0.0, 3.0], [5.0, 0.0]]), normalize=True)
    >>> geometry.similarity
    tensor([[1., 0., 1.],
            [0., 1., 0.],
            [1., 0., 1.]])
    >>> geometry.squared_distance[0]
    tensor([0., 2., 0.])
    """

    def __init__(self, rows: Tensor, columns: Tensor | None = None, *, normalize: bool) -> None:
        rows = working(rows)
        if columns is not None:
            columns = working(columns)
            if columns.dtype != rows.dtype:
                common = torch.promote_types(rows.dtype, columns.dtype)
                rows, columns = rows.to(common), columns.to(common)
        self.normalized = normalize
        self.with_itself = columns is None
        self.lengths = lengths_of(rows) if normalize else None  # of the raw rows (n, 1)
        self.rows = rows if self.lengths is None else rows / self.lengths
        self.columns = self.rows if columns is None else unit(columns) if normalize else columns

    @cached_property
    def similarity(self) -> Tensor:
        """Dot products (n, m): cosines when normalised."""
        return self.rows @ self.columns.T

    @cached_property
    def squared_distance(self) -> Tensor:
        """Squared Euclidean distances (n, m)."""
        if self._is_plain:
            return self._plain_squares()
        squared, coincident = self._raw_squares
        return squared.masked_fill(coincident, 0)

    @cached_property
    def distance(self) -> Tensor:
        """Euclidean distances (n, m); the derivative at coincident points is 0."""
        if self._is_plain:
            squares = self.__dict__.get("squared_distance")
            return self._plain_squares().sqrt_() if squares is None else squares.sqrt()
        squared, coincident = self._raw_squares
        return _root(squared, coincident)

    def distance_of(self, first: Tensor, second: Tensor, *, squared: bool = False) -> Tensor:
        """Distances (t,) of the pairs (row `first[i]`, column `second[i]`).

        >>> geometry = Geometry(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), normalize=False)
        >>> geometry.distance_of(torch.tensor([0, 1]), torch.tensor([1, 1]))
        tensor([5., 0.])
        """
        n, width = self.rows.shape
        m = self.columns.shape[0]
        if first.numel() * width <= 4 * n * m:  # few pairs: the coordinates' differences, cheaper and exact when near
            difference = self.rows.index_select(0, first) - self.columns.index_select(0, second)
            squares = difference.square().sum(1)
            return squares if squared else _root(squares, squares.detach() == 0)
        matrix = self.squared_distance if squared else self.distance
        return matrix.reshape(-1).index_select(0, first * m + second)

    def detached(self) -> Geometry:
        """The same geometry without gradients, for miners; what was computed already is shared."""
        if not (self.rows.requires_grad or self.columns.requires_grad):
            return self
        copy = Geometry(self.rows.detach(), None if self.with_itself else self.columns.detach(), normalize=False)
        copy.normalized, copy.lengths = self.normalized, self.lengths
        for name in ("similarity", "squared_distance", "distance"):
            if name in self.__dict__:
                copy.__dict__[name] = self.__dict__[name].detach()
        return copy

    @property
    def _is_plain(self) -> bool:
        return self.with_itself and not self.rows.requires_grad

    def _plain_squares(self) -> Tensor:
        """As `_raw_squares` without gradients: in place, and what is nothing but rounding set to 0."""
        if self.normalized:
            lengths = self.similarity.diagonal()
            squared = (lengths[:, None] + lengths[None, :]).add_(self.similarity, alpha=-2)
            return functional.threshold(squared, 8 * torch.finfo(squared.dtype).eps, 0.0, inplace=True)
        rows = self.rows - self.rows[:1]
        squared = rows @ rows.T
        lengths = squared.diagonal().clone()
        noise = 4 * torch.finfo(squared.dtype).eps
        for part, own in zip(squared.split(128), lengths.split(128), strict=True):  # a few rows at a time stay in cache
            total = own[:, None] + lengths
            torch.add(total, part, alpha=-2, out=part)
            part.mul_(torch.gt(part, total.mul_(noise), out=total))
        return squared

    @cached_property
    def _raw_squares(self) -> tuple[Tensor, Tensor]:
        """|x|^2 + |y|^2 - 2 x.y, and where it is nothing but rounding."""
        if self.normalized:
            product = self.similarity
            rows, columns = self.rows.detach(), self.columns.detach()  # a unit row's length has no gradient
        else:
            # Far from the origin the products lose all digits, so all is moved by the first row, which changes no
            # distance (and keeps equal ones equal on a grid, as the mean would not).
            origin = self.rows.detach()[:1]
            rows = self.rows - origin if len(origin) else self.rows
            columns = rows if self.with_itself else self.columns - origin if len(origin) else self.columns
            product = rows @ columns.T
        if self.with_itself:
            lengths = product.detach().diagonal() if self.normalized else product.diagonal()
            total = lengths[:, None] + lengths[None, :]
        else:
            total = rows.square().sum(1)[:, None] + columns.square().sum(1)[None, :]
        squared = torch.add(total, product, alpha=-2)
        noise = 4 * torch.finfo(squared.dtype).eps
        return squared, squared.detach() <= noise * total.detach()
