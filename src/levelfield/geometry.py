"""Similarities and distances between rows and columns, computed on demand, cached, with finite gradients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from levelfield.distributed.gathering import gather

__all__ = ["Geometry", "gather", "unit"]

TINY = 1e-12  # a row of at most this length counts as a zero row
WITHOUT_FLOAT64 = {"mps"}  # types of devices


def working(rows: Tensor) -> Tensor:
    """Convert half precision to float32, because exponentials and squares overflow in half precision."""
    return rows.float() if rows.dtype in (torch.float16, torch.bfloat16) else rows


def widest(device: torch.device) -> torch.dtype:
    """The widest floating-point type of a device: float64, or float32 on Apple's.

    >>> widest(torch.device("cpu")), widest(torch.device("mps"))
    (torch.float64, torch.float32)
    """
    return torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64


def full_precision(device: str) -> AbstractContextManager[None]:
    """Disable autocast, because exponentials and squares overflow in half precision."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Context that allows or forbids TF32 for float32 products and convolutions on CUDA. PyTorch's default allows it
    for convolutions; everything that is stored or compared is computed without it."""
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    products.allow_tf32 = convolutions.allow_tf32 = allowed
    try:
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before


def unit(rows: Tensor) -> Tensor:
    """Divide every row by its length; a zero row stays zero and gets gradient 0 instead of 1e12.

    rows: (n, d)

    >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    return rows / lengths_of(rows)


def lengths_of(rows: Tensor) -> Tensor:
    """Lengths (n, 1); a zero row counts as infinitely long, so that dividing by it gives 0."""
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    safe: Tensor = length.masked_fill(length <= TINY, torch.inf)
    return safe


def _root(squared: Tensor, coincident: Tensor) -> Tensor:
    """Square root, with 1 substituted where points coincide: the infinite slope there times 0 would be NaN."""
    return squared.masked_fill(coincident, 1).sqrt().masked_fill(coincident, 0)


class Geometry:
    """Similarities and distances between rows and columns: a batch and itself, proxies, or support and query.

    Each matrix (n, m) is computed on first access and then cached. Gradients flow back to the rows; gradients at
    coincident points are 0 instead of infinite. Memory: O(n * m) for each matrix used.

    Miners and objectives create a geometry from plain embeddings. Create one yourself to share the matrices between
    several parts, or to let a miner compare raw rows (`normalize=False`).

    Args:
        rows: (n, dim) raw embeddings.
        columns: (m, dim) raw embeddings or proxies; without them the rows are compared with themselves, and the
            diagonal of the distances is exactly 0.
        normalize: divide both sides by their lengths first, so that similarities are cosines.

    >>> geometry = Geometry(torch.tensor([[2.0, 0.0], [0.0, 3.0], [5.0, 0.0]]), normalize=True)
    >>> geometry.similarity
    tensor([[1., 0., 1.],
            [0., 1., 0.],
            [1., 0., 1.]])
    >>> geometry.squared_distance[0]
    tensor([0., 2., 0.])
    >>> from levelfield import miners
    >>> miners.create("batch_hard")(geometry, torch.tensor([0, 0, 1])).tolist()
    [[0, 1, 2], [1, 0, 2]]
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
        few = first.numel() * width <= 4 * n * m or (not self._has_product and 8 * first.numel() <= n * m)
        if few:  # coordinate differences: cheaper, and exact for near points
            difference = self.rows.index_select(0, first) - self.columns.index_select(0, second)
            squares = difference.square().sum(1)
            return squares if squared else _root(squares, squares.detach() == 0)
        positions = first * m + second
        if self._is_plain and "distance" not in self.__dict__:  # take the root of a few entries instead of all
            squares = self.squared_distance.reshape(-1).index_select(0, positions)
            return squares if squared else squares.sqrt_()
        return (self.squared_distance if squared else self.distance).reshape(-1).index_select(0, positions)

    def detached(self) -> Geometry:
        """The same geometry without gradients, for miners; shares matrices that are already computed."""
        if not (self.rows.requires_grad or self.columns.requires_grad):
            return self
        copy = Geometry(self.rows.detach(), None if self.with_itself else self.columns.detach(), normalize=False)
        copy.normalized, copy.lengths = self.normalized, self.lengths
        for name in ("similarity", "squared_distance", "distance"):
            if name in self.__dict__:
                copy.__dict__[name] = self.__dict__[name].detach()
        return copy

    @property
    def _has_product(self) -> bool:
        """Whether distances need no further matrix product."""
        known = self.__dict__.keys()
        return "squared_distance" in known or "distance" in known or (self.normalized and "similarity" in known)

    @property
    def _is_plain(self) -> bool:
        return self.with_itself and not self.rows.requires_grad

    def _plain_squares(self) -> Tensor:
        """Like `_raw_squares`, but in place and without gradients; pure rounding errors are set to 0."""
        if self.normalized:
            lengths = self.similarity.diagonal()
            squared = (lengths[:, None] + lengths[None, :]).add_(self.similarity, alpha=-2)
            return functional.threshold(squared, 8 * torch.finfo(squared.dtype).eps, 0.0, inplace=True)
        rows = self.rows - self.rows[:1]
        squared = rows @ rows.T
        lengths = squared.diagonal().clone()
        noise = 4 * torch.finfo(squared.dtype).eps
        for part, of_rows in zip(squared.split(128), lengths.split(128), strict=True):  # blocks that fit in the cache
            total = of_rows[:, None] + lengths
            torch.add(total, part, alpha=-2, out=part)
            part.mul_(torch.gt(part, total.mul_(noise), out=total))
        return squared

    @cached_property
    def _raw_squares(self) -> tuple[Tensor, Tensor]:
        """|x|^2 + |y|^2 - 2 x.y, and a mask of entries that are pure rounding error."""
        if self.normalized:
            product = self.similarity
            rows, columns = self.rows.detach(), self.columns.detach()  # a unit row's length has no gradient
        else:
            # Far from the origin the products lose all digits, so subtract the first row from all rows, which changes
            # no distance. (Unlike subtracting the mean, it keeps equal distances equal on a grid.)
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
