"""Rows for the geometry metrics: read in blocks, in float64, in canonical order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelfield.errors import BadSpecification
from levelfield.evaluation.inputs import Array, class_names, finite_rows
from levelfield.evaluation.metrics.registry import Metric
from levelfield.evaluation.search.distances import scale_of, unit_rows
from levelfield.evaluation.search.order import row_numbers
from levelfield.evaluation.search.products import TILE, tiled
from levelfield.progress import SILENT_STAGE, Stage

BLOCK = 21 * TILE  # with whole tiles, products do not depend on the number of threads


@dataclass(frozen=True, eq=False)
class Points:
    """Embeddings and their class codes. Rows are converted to float64 in blocks and never copied as a whole.

    unit: normalise rows to length 1 on the way; otherwise divide them by `scale`. Results do not depend on the order of
    rows or the names of classes: classes and rows are sorted by a hash of their content.
    """

    rows: Array
    codes: Array
    unit: bool
    results: dict[str, Any] = field(default_factory=dict, repr=False)  # of `cached` functions

    @classmethod
    def of(cls, rows: Any, labels: Any = None, *, unit: bool = False) -> Points:
        """Validated arrays; without labels all rows are of one class."""
        checked = finite_rows(rows, "rows", None)
        if labels is None:
            return cls(checked, np.zeros(len(checked), dtype=np.int64), unit)
        names = class_names(labels, "labels", len(checked), "rows")
        return cls(checked, np.unique(names, return_inverse=True)[1], unit)

    @cached_property
    def scale(self) -> float:
        return 1.0 if self.unit else scale_of(self.rows)

    @cached_property
    def order(self) -> Array:
        """Positions of all rows, sorted by hash."""
        return np.argsort(self._numbers, kind="stable")

    @cached_property
    def classes(self) -> list[Array]:
        """Positions of the rows of each class."""
        sums = np.zeros(int(self.codes.max()) + 1, dtype=np.uint64)
        np.add.at(sums, self.codes, self._numbers)
        order = np.lexsort((self._numbers, self.codes, sums[self.codes]))
        return np.split(order, np.flatnonzero(np.diff(self.codes[order])) + 1)

    @cached_property
    def _numbers(self) -> Array:
        return row_numbers(self.rows)

    def lifted(self, positions: Array) -> Array:
        """Rows in float64, in units of `scale`."""
        part: Array = self.rows[positions].astype(np.float64)
        return unit_rows(part) if self.unit else part / self.scale

    def parts(self, positions: Array, size: int = 0) -> Iterator[Array]:
        """The rows at `positions`, `size` at a time (or a block, if that is more)."""
        size = max(size, BLOCK)
        for start in range(0, len(positions), size):
            yield self.lifted(positions[start : start + size])

    def copied(self, dtype: Any) -> Array:
        """All rows in canonical order, as a new array of the given dtype."""
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


def cached(compute: Callable[[Points], Any]) -> Callable[..., Any]:
    """Decorator: compute a result once for each `Points`."""

    @wraps(compute)
    def result(points: Points, *, form: None = None) -> Any:
        if compute.__qualname__ not in points.results:
            points.results[compute.__qualname__] = compute(points)
        return points.results[compute.__qualname__]

    return result


def geometry_scores(
    rows: Array, codes: Array, metrics: Sequence[Metric], *, distance: str, stage: Stage = SILENT_STAGE
) -> dict[str, float]:
    """Geometry metrics of rows as `distance` compares them: unit length under cosine, bits under hamming."""
    points: dict[bool, Points] = {}
    result = {}
    for metric in metrics:
        facts = metric.facts
        unit = facts.norm == "unit" or distance == "cosine"
        if unit not in points:
            points[unit] = Points((rows[:] > 0).astype(np.float32) if distance == "hamming" else rows, codes, unit)
        before = stage.done
        counted = {"stage": stage} if facts.all_pairs else {}
        result[metric.name] = float(metric.compute(points[unit], form=metric.form, **metric.numbers, **counted))
        if facts.all_pairs:
            stage.reach(before + pairs_of(len(rows)))
    return result


def refuse_undefined(wanted: Iterable[Metric], distance: str) -> None:
    """Refuse metrics that are not defined for the distance."""
    for metric in wanted:
        defined = metric.facts.distances
        if defined and distance not in defined:
            raise BadSpecification(
                f"Metric '{metric.name}' is not defined for distance '{distance}'; use {' or '.join(defined)}."
            )


def pair_sum(
    count: int, block: Callable[[int, int], Array], value: Callable[[Tensor], Tensor], stage: Stage = SILENT_STAGE
) -> float:
    """Sum of `value(|x - y|^2)` over all pairs of `count` rows, each pair once (half of the distance matrix).

    block(start, stop): returns these rows in one dtype, which is used for products; the sum is in float64. Rows should
    be centred at the origin: |x|^2 + |y|^2 - 2xy loses small distances beside |x|^2. `value` may modify its input.
    """
    total = 0.0
    for start in range(0, count, BLOCK):
        left = block(start, min(start + BLOCK, count))
        for other in range(start, count, BLOCK):
            right = left if other == start else block(other, min(other + BLOCK, count))
            products = torch.from_numpy(tiled(left)) @ torch.from_numpy(tiled(right)).T
            squares = products[: len(left), : len(right)].mul_(-2).add_(_squares(right)).add_(_squares(left)[:, None])
            values = value(squares.clamp_min_(0))
            values = values.triu_(1) if other == start else values
            total += float(values.sum(dim=1).sum(dtype=torch.float64))  # a row of a block is short enough for float32
        stage.advance(pairs_of(count - start) - pairs_of(max(count - start - BLOCK, 0)))
    return total


def pairs_of(count: int) -> int:
    """Number of pairs of `count` rows."""
    return count * (count - 1) // 2


def _squares(rows: Array) -> Tensor:
    return torch.from_numpy(np.square(rows).sum(axis=1))
