"""GC, the greedy coreset: each anchor is the image farthest from all earlier anchors."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from levelfield.batching._base import Labels
from levelfield.batching._coreset import Chosen, Coreset
from levelfield.batching._registry import register
from levelfield.settings import Share


class FarthestFirst:
    """Farthest-first choice among `rows` (pool, dim), float64: one matrix-vector product per pick, no distance matrix.

    >>> FarthestFirst(np.array([[0.0], [1.0], [5.0], [9.0]])).choose(3, start=0)
    (array([0, 3, 2]), array([9., 4., 1.]))
    """

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows
        self.squares = np.einsum("pd,pd->p", rows, rows)

    def choose(
        self,
        count: int,
        start: int,
        *,
        classes: np.ndarray | None = None,
        soft: float = 0.0,
        stream: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Choose `count` rows, `start` first, then each time the row farthest from its nearest chosen row (ties: lowest
        index; no index twice); also return the largest such distance after each pick.

        classes: (pool,); rows of a chosen class are excluded. soft: draw from `stream`, uniformly among the free rows
        at or above this quantile of their distances.
        """
        nearest, squared = np.full(len(self.rows), np.inf), np.empty(len(self.rows))
        barred = np.zeros(len(self.rows))
        selected, radius = np.empty(count, dtype=np.int64), np.empty(count)
        pick = start
        for turn in range(count):
            selected[turn] = pick
            np.dot(self.rows, self.rows[pick] * -2, out=squared)  # |x - c|^2 = |x|^2 - 2 x c + |c|^2
            squared += self.squares
            squared += self.squares[pick]
            np.minimum(nearest, squared, out=nearest)
            np.maximum(nearest, 0, out=nearest)
            radius[turn] = nearest.max()
            barred[pick if classes is None else classes == classes[pick]] = -np.inf
            np.add(nearest, barred, out=squared)
            pick = int(squared.argmax()) if not soft or turn + 1 == count else _softly(squared, soft, stream)
        return selected, np.sqrt(radius)


def _softly(squared: np.ndarray, soft: float, stream: np.random.Generator | None) -> int:
    assert stream is not None
    free = np.flatnonzero(np.isfinite(squared))
    distances = np.sqrt(squared[free])
    return int(stream.choice(free[distances >= np.quantile(distances, soft)]))


@register("greedy_coreset", "anchors as far as possible from each other, each with images of its class")
class GreedyCoreset(Coreset):
    """Roth et al. 2020, GC: k-centre, farthest first. O(anchors pool dim) per batch.

    soft: draw among the rows at or above this quantile of the distances, e.g. 0.97; 0: always the farthest.

    >>> labels, rows = np.repeat(np.arange(8), 4), np.random.default_rng(0).normal(size=(32, 3))
    >>> GreedyCoreset(labels, batch_size=8, pool="all").plan(0, rows).shape
    (4, 8)
    """

    def __init__(
        self,
        labels: Labels,
        *,
        batch_size: int,
        soft: Share = 0.0,
        **shared: Unpack[Chosen],
    ) -> None:
        self.soft = soft
        super().__init__(labels, batch_size=batch_size, **shared)

    def _prepare(self, rows: np.ndarray) -> FarthestFirst:
        return FarthestFirst(rows)

    def _anchors(self, prepared: FarthestFirst, classes: np.ndarray | None, stream: np.random.Generator) -> np.ndarray:
        start = int(stream.integers(len(prepared.rows)))
        return prepared.choose(self.classes_per_batch, start, classes=classes, soft=self.soft, stream=stream)[0]
