"""DDM: the candidate batch whose distance distribution is closest to that of the pool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Unpack

import numpy as np

from levelfield.batching._base import Labels
from levelfield.batching._candidates import BestOfCandidates, Pooled, Scorer
from levelfield.batching._registry import register
from levelfield.errors import BadSpecification
from levelfield.settings import Count

MOST_PAIRS = 50_000_000  # limit for sorting
BLOCK = 256  # rows whose distances are computed at a time


@dataclass(frozen=True, eq=False)
class Distances:
    """The reference distribution: pairwise distances of `rows`.

    >>> distances = Distances.of(np.array([[0.0], [1.0], [3.0]]), bins=2)
    >>> distances.low, distances.high, distances.shares.round(2).tolist()
    (1.0, 3.0, [0.33, 0.67])
    """

    rows: np.ndarray
    low: float
    high: float
    shares: np.ndarray  # share of the pairs in each bin; empty without bins
    ordered: np.ndarray  # all distances, ascending; empty with bins

    @classmethod
    def of(cls, rows: np.ndarray, bins: int) -> Distances:
        """Compute in blocks, for any number of rows. bins = 0: keep the distances themselves."""
        if not bins:
            if len(rows) ** 2 > 2 * MOST_PAIRS:
                raise BadSpecification(
                    f"distance 'exact' against reference 'data' would sort the distances of all "
                    f"pairs of {len(rows):,} images: choose distance 'bins' or reference 'pool'."
                )
            ordered = np.sort(np.concatenate(list(_blocks(rows))))
            return cls(rows, ordered[0], ordered[-1], np.empty(0), ordered)
        ranges = [(block.min(), block.max()) for block in _blocks(rows)]
        low, high = float(min(a for a, _ in ranges)), float(max(b for _, b in ranges))
        counts = np.zeros(bins)
        for block in _blocks(rows):
            counts += np.bincount(codes(block, low, high, bins), minlength=bins)
        return cls(rows, low, high, counts / counts.sum(), np.empty(0))

    @cached_property
    def cumulated(self) -> np.ndarray:
        return self.shares.cumsum()

    @cached_property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (over n) of each coordinate."""
        return self.rows.mean(axis=0), self.rows.std(axis=0)

    @cached_property
    def _integral(self) -> np.ndarray:
        """Integral of the quantile function up to each of the ordered distances."""
        sums: np.ndarray = np.r_[0.0, np.cumsum(self.ordered)] / len(self.ordered)
        return sums

    def wasserstein(self, sample: np.ndarray) -> float:
        """1-Wasserstein distance between `sample` (ascending) and the distances.

        Each value of the sample has a share [a, b] of all quantiles; in it, |quantile function - value| changes sign
        once. The integral of the quantile function is a sum of the ordered distances: O(sample * log pairs).

        >>> aim = Distances.of(np.array([[0.0], [1.0], [3.0]]), bins=0)  # 1, 2 and 3
        >>> round(aim.wasserstein(np.array([2.0])), 4)
        0.6667
        """
        count = len(self.ordered)
        bounds = np.arange(len(sample) + 1) * (count / len(sample))  # in positions of `ordered`
        a, b = bounds[:-1], bounds[1:]
        cross = np.searchsorted(self.ordered, sample, side="right").clip(a, b)
        low, middle, high = (np.interp(at, np.arange(count + 1), self._integral) for at in (a, cross, b))
        return float((sample * (2 * cross - a - b) / count - 2 * middle + low + high).sum())


def pairwise(rows: np.ndarray) -> np.ndarray:
    """(n, n) Euclidean distances, of centred rows: far from the origin, rounding would destroy them."""
    rows = rows - rows.mean(axis=0)
    result: np.ndarray = rows @ rows.T
    squares = result.diagonal().copy()
    result *= -2
    result += squares
    result += squares[:, None]
    np.maximum(result, 0, out=result)
    np.sqrt(result, out=result)
    np.fill_diagonal(result, 0)
    return result


def span(distances: np.ndarray) -> tuple[float, float]:
    """Smallest and largest distance of a pair, without the diagonal."""
    np.fill_diagonal(distances, distances[0, 1])
    ends = float(distances.min()), float(distances.max())
    np.fill_diagonal(distances, 0)
    return ends


def codes(distances: np.ndarray, low: float, high: float, bins: int) -> np.ndarray:
    """Bin of each distance, floor((x - low) / width), clamped to the end bins.

    >>> codes(np.array([0.0, 1.0, 1.4, 3.0, 9.0]), 1.0, 3.0, 4).tolist()
    [0, 0, 0, 3, 3]
    """
    if high <= low:
        return np.zeros(distances.shape, dtype=np.uint8)
    scaled = distances - low
    scaled /= (high - low) / bins
    return scaled.clip(0, bins - 1, out=scaled).astype(np.min_scalar_type(bins))


def _blocks(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the distances of all pairs in blocks."""
    rows = rows - rows.mean(axis=0)
    squares = np.einsum("nd,nd->n", rows, rows)
    for start in range(0, len(rows), BLOCK):
        stop = min(start + BLOCK, len(rows))
        distances = rows[start:stop] @ rows[start:].T
        distances *= -2
        distances += squares[start:]
        distances += squares[start:stop, None]
        np.sqrt(np.maximum(distances, 0, out=distances), out=distances)
        among, others = distances[:, : stop - start], distances[:, stop - start :]
        if stop - start > 1:
            yield among[np.triu_indices(stop - start, 1)]
        if stop < len(rows):
            yield others.ravel()


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
        for histogram, rows in zip(counts, candidates, strict=True):
            histogram[:] = np.bincount(self._codes[rows].take(rows, axis=1).ravel(), minlength=self.bins)
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

    @property
    def _bins(self) -> int:
        return self.bins if self.distance == "bins" else 0

    def _describe(self, rows: np.ndarray) -> Distances:
        return Distances.of(rows, self._bins)

    def _scorer(self, rows: np.ndarray, reference: Distances | None) -> Scorer:
        return DistanceScorer(rows, reference, bins=self._bins, moments=self.moments)
