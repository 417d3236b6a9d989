"""Synthetic embeddings of the sizes of the usual test sets: classes overlap in groups, R@1 between 0.66 and 0.84."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
DIM = 512


@dataclass(frozen=True)
class Sample:
    """One set: `gallery` None means that the queries are their own gallery."""

    query: Array
    labels: Array
    gallery: Array | None = None
    gallery_labels: Array | None = None

    @property
    def rows(self) -> Array:
        return self.query if self.gallery is None else self.gallery

    @property
    def pairs(self) -> int:
        """Pairs of a query and a positive."""
        theirs = self.labels if self.gallery_labels is None else self.gallery_labels
        found = int(np.bincount(theirs, minlength=int(self.labels.max()) + 1)[self.labels].sum())
        return found - (len(self.labels) if self.gallery is None else 0)

    @property
    def bytes(self) -> int:
        return self.query.nbytes + (0 if self.gallery is None else self.gallery.nbytes)


@dataclass(frozen=True)
class Shape:
    """Parameters of a set. `noise` is chosen for an R@1 between 0.66 and 0.84."""

    queries: int
    classes: int
    noise: float
    gallery: int = 0
    sizes: tuple[int, int] | None = None  # smallest and largest class; None: equal sizes
    dim: int = DIM

    def sample(self) -> Sample:
        draw = np.random.default_rng(0)
        groups = draw.normal(size=(max(self.classes // 10, 1), self.dim)).astype(np.float32)
        own = draw.normal(size=(self.classes, self.dim)).astype(np.float32)
        centres = groups[draw.integers(0, len(groups), self.classes)] + 0.7 * own

        def rows(labels: Array) -> Array:
            found = draw.normal(size=(len(labels), self.dim)).astype(np.float32)
            found *= np.float32(self.noise)
            found += centres[labels]
            found /= np.linalg.norm(found, axis=1, keepdims=True)
            return found

        labels = self._labels(draw, self.queries)
        if not self.gallery:
            return Sample(rows(labels), labels)
        theirs = self._labels(draw, self.gallery)
        return Sample(rows(labels), labels, rows(theirs), theirs)

    def _labels(self, draw: np.random.Generator, count: int) -> Array:
        """Labels with every class, in random order."""
        if self.sizes is None:
            return draw.permutation(np.resize(np.arange(self.classes), count))
        low, high = self.sizes
        sizes = draw.integers(low, high + 1, self.classes)
        while sizes.sum() != count:  # adjust random classes until the number of rows matches
            step = 1 if sizes.sum() < count else -1
            able = np.flatnonzero((sizes + step >= low) & (sizes + step <= high))
            sizes[draw.choice(able, min(abs(int(sizes.sum()) - count), len(able)), replace=False)] += step
        return draw.permutation(np.repeat(np.arange(self.classes), sizes))


SHAPES = {
    "CUB-like": Shape(5_924, 100, 3.0),
    "In-Shop-like": Shape(14_218, 3_985, 2.3, gallery=12_612),
    "20k": Shape(20_000, 2_000, 2.6),
    "SOP-like": Shape(60_502, 11_316, 2.2, sizes=(2, 12)),
}
QUICK = {name: Shape(600, 60, 2.4, gallery=500 * bool(shape.gallery)) for name, shape in SHAPES.items()}
