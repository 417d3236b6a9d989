"""DDM: the candidate batch whose distance distribution is closest to that of the pool."""

from __future__ import annotations

from typing import Any, Literal, Unpack

import numpy as np

from levelfield.batching._registry import register
from levelfield.batching.base import Labels
from levelfield.batching.candidates import BestOfCandidates, Pooled, Scorer
from levelfield.batching.distances import Distances, codes, pairwise, span
from levelfield.settings import Count

WEIGHT = 2 * 75.0  # of the distance relative to the moments: Roth et al. 2020, released code, which adds it twice


class DistanceScorer:
    """1-Wasserstein distances between the distributions of pairwise distances, of batches and of `reference`.

    rows: (pool, dim) float64. reference: the rows themselves if not given. bins: number of equal bins between the
    smallest and the largest distance of the reference, values outside are clamped; 0: raw samples.
    moments: add the norms of the differences of means and of standard deviations of the rows, as the released cost
    does.

    The distances of all rows are computed once; a batch is a count over a block of them.

    >>> rows = np.array([[0.0], [1.0], [2.0], [4.0]])
    >>> DistanceScorer(rows, bins=3)(np.array([[0, 1, 2], [0, 2, 3]])).round(3)
    array([0.667, 0.333])
    """

    def __init__(
        self, rows: np.ndarray, reference: Distances | None = None, *, bins: int = 50, moments: bool = False
    ) -> None:
        self.rows, self.bins, self.moments = rows, bins, moments
        self.distances = pairwise(rows)
        low, high = (reference.low, reference.high) if reference else span(self.distances)
        if bins:
            self._codes = codes(self.distances, low, high, bins)
        self.reference = reference or self._own(low, high)

    def __call__(self, candidates: np.ndarray) -> np.ndarray:
        scores: np.ndarray
        if self.bins:
            width = (self.reference.high - self.reference.low) / self.bins
            scores = width * np.abs(self.shares(candidates).cumsum(axis=1) - self.reference.cumulated).sum(axis=1)
        else:
            pairs = np.triu_indices(candidates.shape[1], 1)
            blocks = (np.sort(self.distances[rows[:, None], rows][pairs]) for rows in candidates)
            scores = np.array([self.reference.wasserstein(block) for block in blocks])
        if not self.moments:
            return scores
        chosen, (mean, std) = self.rows[candidates], self.reference.moments
        gaps = chosen.mean(axis=1) - mean, chosen.std(axis=1) - std
        scores = WEIGHT * scores + np.linalg.norm(gaps[0], axis=1) + np.linalg.norm(gaps[1], axis=1)
        return scores

    def shares(self, candidates: np.ndarray) -> np.ndarray:
        """(candidates, bins): share of a batch's pairs in each bin."""
        count, size = candidates.shape
        counts = np.empty((count, self.bins))
        for found, rows in zip(counts, candidates, strict=True):
            found[:] = np.bincount(self._codes[rows].take(rows, axis=1).ravel(), minlength=self.bins)
        counts[:, 0] -= size  # the diagonal: distance 0 is in the first bin
        shares: np.ndarray = counts / (size * (size - 1))
        return shares

    def _own(self, low: float, high: float) -> Distances:
        """`Distances.of` the rows, from the existing distance matrix."""
        count = len(self.rows)
        if not self.bins:
            return Distances(self.rows, low, high, np.empty(0), np.sort(self.distances[np.triu_indices(count, 1)]))
        counts = np.bincount(self._codes.ravel(), minlength=self.bins)
        counts[0] -= count
        return Distances(self.rows, low, high, counts / (count * (count - 1)), np.empty(0))


@register("ddm", "the one of 10 SPC batches whose distance distribution is closest to that of a pool")
class DistanceMatching(BestOfCandidates):
    """Roth et al. 2020, DDM. O(pool^2 dim + candidates batch^2) per batch.

    distance: `bins` (a histogram with `bins` equal bins) or `exact` (raw samples, slower).
    moments: also match mean and standard deviation of the embeddings, as the released cost does.

    >>> labels, rows = np.repeat(np.arange(8), 4), np.random.default_rng(0).normal(size=(32, 3))
    >>> DistanceMatching(labels, batch_size=8).plan(0, rows).shape
    (4, 8)
    """

    def __init__(
        self,
        labels: Labels,
        *,
        batch_size: int,
        distance: Literal["bins", "exact"] = "bins",
        bins: Count = 50,  # Roth et al. 2020, released code
        moments: bool = False,
        **shared: Unpack[Pooled],
    ) -> None:
        self.distance, self.bins, self.moments = distance, bins, moments
        super().__init__(labels, batch_size=batch_size, **shared)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "distance": self.distance, "bins": self.bins, "moments": self.moments}

    @property
    def _bins(self) -> int:
        return self.bins if self.distance == "bins" else 0

    def _describe(self, rows: np.ndarray) -> Distances:
        return Distances.of(rows, self._bins)

    def _scorer(self, rows: np.ndarray, reference: Distances | None) -> Scorer:
        return DistanceScorer(rows, reference, bins=self._bins, moments=self.moments)
