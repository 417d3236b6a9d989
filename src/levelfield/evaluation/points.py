"""Rows as the metrics of their geometry read them: a few at a time, in float64, in an order of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from levelfield.errors import BadSpecification
from levelfield.evaluation.distances import unit_rows
from levelfield.evaluation.inputs import Array, class_names, finite_rows
from levelfield.evaluation.metrics import Metric, describe
from levelfield.evaluation.order import row_numbers

T = TypeVar("T")
BLOCK = 1024


@dataclass(frozen=True, eq=False)
class Points:
    """Embeddings and their class codes. The rows are lifted to float64 a block at a time and never copied as a whole.

    unit: whether they are brought to length 1 on the way. The order of rows, and the names of classes, change no bit:
    classes come in the order of a number made of their rows, rows within them in that of their own.
    """

    rows: Array
    codes: Array
    unit: bool
    _found: dict[Callable[[Points], Any], Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, rows: Any, labels: Any = None, *, unit: bool = False) -> Points:
        """From anybody's arrays, checked; without labels all rows are of one class."""
        found = finite_rows(rows, "rows", None)
        names = np.zeros(len(found), dtype=np.int64) if labels is None else class_names(
            labels, "labels", len(found), "rows")
        return cls(found, np.unique(names, return_inverse=True)[1], unit)

    def once(self, compute: Callable[[Points], T]) -> T:
        """`compute` of these points, the first time it is asked for: several metrics need the same spectrum."""
        if compute not in self._found:
            self._found[compute] = compute(self)
        found: T = self._found[compute]
        return found

    @cached_property
    def order(self) -> Array:
        """Positions of all rows by their number."""
        return np.argsort(self._numbers, kind="stable")

    @cached_property
    def classes(self) -> list[Array]:
        """Positions of the rows of each class."""
        own = np.zeros(int(self.codes.max()) + 1, dtype=np.uint64)
        np.add.at(own, self.codes, self._numbers)
        order = np.lexsort((self._numbers, self.codes, own[self.codes]))
        return np.split(order, np.flatnonzero(np.diff(self.codes[order])) + 1)

    @cached_property
    def _numbers(self) -> Array:
        return row_numbers(self.rows)

    def lifted(self, positions: Array) -> Array:
        """These rows in float64."""
        part = self.rows[positions].astype(np.float64)
        return unit_rows(part) if self.unit else part

    def parts(self, positions: Array, size: int = 0) -> Iterator[Array]:
        """The rows at `positions`, `size` at a time (or a block, if that is more)."""
        size = max(size, BLOCK)
        for start in range(0, len(positions), size):
            yield self.lifted(positions[start : start + size])

    def copied(self, dtype: Any) -> Array:
        """All rows, in their own order, as a new array of this type."""
        result = np.empty(self.rows.shape, dtype)
        for number, part in enumerate(self.parts(self.order)):
            result[number * BLOCK : number * BLOCK + len(part)] = part
        return result

    def mean(self, positions: Array) -> Array:
        total: Array = sum((part.sum(axis=0) for part in self.parts(positions)), np.zeros(self.rows.shape[1]))
        return total / len(positions)

    def scatter(self, positions: Array, centre: Array) -> float:
        """Sum of the squared distances of these rows from `centre`."""
        return float(sum(np.square(part - centre).sum() for part in self.parts(positions)))


def measure(rows: Array, codes: Array, wanted: Iterable[Metric], *, distance: str) -> dict[str, float]:
    """The geometry metrics of rows as `distance` compares them: of unit length under cosine, bits under hamming.

    >>> from levelfield.evaluation import parse
    >>> measure(np.eye(2), np.array([0, 1]), [parse("rho"), parse("inter_distance")], distance="cosine")
    {'rho': 0.0, 'inter_distance': 1.0}
    """
    found: dict[bool, Points] = {}
    result = {}
    for metric in wanted:
        facts = describe(metric.entry)
        if facts.distances and distance not in facts.distances:
            raise BadSpecification(f"Metric '{metric.name}' is not defined for distance '{distance}': "
                                   f"{' or '.join(facts.distances)} is needed.")
        unit = facts.norm == "unit" or distance == "cosine"
        if unit not in found:
            found[unit] = Points((rows > 0).astype(np.float32) if distance == "hamming" else rows, codes, unit)
        result[metric.name] = float(metric.compute(found[unit], form=metric.form, **metric.numbers))
    return result


def pair_sum(count: int, block: Callable[[int, int], Array], value: Callable[[Tensor], Tensor]) -> float:
    """Sum of `value(|x - y|^2)` over all pairs of `count` rows, each pair once: half of the matrix of distances.

    block(start, stop): these rows, all of one type; products are made in it, the sum in float64. The rows should lie
    around the origin: |x|^2 + |y|^2 - 2xy loses what is small beside |x|^2. `value` may write into what it gets.

    >>> rows = np.array([[0.0], [1.0], [3.0]])
    >>> pair_sum(3, lambda start, stop: rows[start:stop], torch.sqrt)
    6.0
    """
    total = 0.0
    for start in range(0, count, BLOCK):
        left = torch.from_numpy(block(start, min(start + BLOCK, count)))
        for other in range(start, count, BLOCK):
            right = left if other == start else torch.from_numpy(block(other, min(other + BLOCK, count)))
            squares = torch.addmm(_squares(right)[None, :], left, right.T, alpha=-2)
            values = value(squares.add_(_squares(left)[:, None]).clamp_min_(0))
            values = values.triu_(1) if other == start else values
            total += float(values.sum(dim=1).sum(dtype=torch.float64))  # a row of a block is short enough for float32
    return total


def pairs_of(count: int) -> int:
    """How many pairs `count` rows form.

    >>> pairs_of(4)
    6
    """
    return count * (count - 1) // 2


def _squares(rows: Tensor) -> Tensor:
    return torch.einsum("ij,ij->i", rows, rows)
