"""FRD and DDM: of a few candidate batches, the one whose distribution of embeddings is closest to that of a pool."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge

from levelfield.batching._groups import draw_candidates, draw_groups
from levelfield.batching._memory import Remembering
from levelfield.batching._registry import register
from levelfield.errors import BadSpecification
from levelfield.settings import Count

Scorer = Callable[[np.ndarray], np.ndarray]
"""Scores (candidates,) of (candidates, batch_size) rows of a pool; the lowest is the best."""

WEIGHT = 2 * 75.0  # of the distance relative to the moments: Roth et al. 2020, released code, which adds it twice


class BestOfCandidates(Remembering):
    """Of `candidates` batches of distinct classes, formed from a pool of groups, the one with the lowest score.

    candidates: number of candidate batches.
    pool: number of images to form candidates from, redrawn for each batch (at most all images).
    shared: one pool for all batches of an epoch; faster, but the epoch has no other images.

    A subclass implements `_scorer`.
    """

    search: ClassVar[Mapping[str, Any]] = {"candidates": [5, 10, 20, 40]}

    candidates: Count = 10  # candidates and pool: Roth et al. 2020, released code
    pool: Annotated[int, Ge(2)] = 512
    shared: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pool < self.batch_size:
            raise BadSpecification(f"'pool' is {self.pool}; it must be at least the batch size {self.batch_size}.")

    @abstractmethod
    def _scorer(self, rows: np.ndarray) -> Scorer:
        """Score batches of these float64 rows against all of the rows."""

    def _plan(self, stream: np.random.Generator, memory: Any) -> np.ndarray:
        groups = max(self.classes_per_batch, min(self.pool, len(self.labels)) // self.group)
        plan = np.empty((self.batches, self.batch_size), dtype=np.int64)
        for number in range(self.batches):
            if number == 0 or not self.shared:
                classes, images = draw_groups(self._groups, groups, stream)
                score = self._scorer(memory[images.ravel()].astype(np.float64))
            hands = draw_candidates(classes, count=self.candidates, hand=self.classes_per_batch, stream=stream)
            positions = (hands[:, :, None] * self.group + np.arange(self.group)).reshape(self.candidates, -1)
            plan[number] = images.ravel()[positions[np.argmin(score(positions))]]
        return plan


class FrechetScorer:
    """Squared Frechet distances of batches from `reference`: |m1 - m2|^2 + tr C1 + tr C2 - 2 tr (C1 C2)^(1/2).

    The last trace is the sum of the roots of the eigenvalues of B C1 B^T / (b - 1), B the centred batch: of a block of
    H = X C1 X^T, computed once for all rows, centred on both sides. b x b for any dimension and rank, no matrix root.

    rows: (pool, dim) float64. reference: (n, dim), the rows themselves if not given.

    >>> rows = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> FrechetScorer(rows)(np.array([[0, 1, 2, 3], [0, 0, 3, 3]])).round(3)  # gap of the standard deviations, squared
    array([0.   , 0.195])
    """

    def __init__(self, rows: np.ndarray, reference: np.ndarray | None = None) -> None:
        whole = rows if reference is None else reference
        self.rows = rows - whole.mean(axis=0)
        centred = whole - whole.mean(axis=0)
        if whole.shape[1] >= len(whole):  # C1 = W^T W / (n - 1), so H = (X W^T) (X W^T)^T / (n - 1)
            inner = self.rows @ centred.T
            self.product = inner @ inner.T / (len(whole) - 1)
        else:
            self.product = self.rows @ (centred.T @ centred / (len(whole) - 1)) @ self.rows.T
        self.trace = float(np.einsum("nd,nd->", centred, centred)) / (len(whole) - 1)
        self.squares = np.einsum("pd,pd->p", self.rows, self.rows)

    def terms(self, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The terms of the means and of the covariances for (candidates, b) rows; their sum is the score."""
        count, size = candidates.shape
        means = np.stack([self.rows[rows].mean(axis=0) for rows in candidates])
        mean_term = np.einsum("cd,cd->c", means, means)
        spread = (self.squares[candidates].sum(axis=1) - size * mean_term) / (size - 1)
        blocks = np.empty((count, size, size))
        for block, rows in zip(blocks, candidates, strict=True):
            np.take(self.product[rows], rows, axis=1, out=block)
            block -= block.mean(axis=0)
            block -= block.mean(axis=1, keepdims=True)
        # Beyond the rank there is only rounding noise, whose root would matter: 4e-8.
        rank = min(size - 1, self.rows.shape[1])
        values = np.linalg.eigvalsh(blocks)[:, size - rank :].clip(min=0) / (size - 1)
        return mean_term, self.trace + spread - 2 * np.sqrt(values).sum(axis=1)

    def __call__(self, candidates: np.ndarray) -> np.ndarray:
        return sum(self.terms(candidates), np.zeros(len(candidates)))


@register("frd", "the one of 10 SPC batches whose mean and covariance are closest to those of a pool")
class FrechetMatching(BestOfCandidates):
    """Roth et al. 2020, FRD. O(pool^2 dim + candidates batch^3) per batch.

    >>> labels, rows = np.repeat(np.arange(8), 4), np.random.default_rng(0).normal(size=(32, 3))
    >>> FrechetMatching(labels, batch_size=8).plan(0, rows).shape
    (4, 8)
    """

    def _scorer(self, rows: np.ndarray) -> Scorer:
        return FrechetScorer(rows)


class DistanceScorer:
    """1-Wasserstein distances between the distributions of pairwise distances, of batches and of `reference`.

    rows: (pool, dim) float64; their distances are computed once, and a batch is a count over a block of them.
    reference: (n, dim), the rows themselves if not given. bins: number of equal bins between the smallest and the
    largest distance of the reference, values outside are clamped; 0: raw samples. moments: add the norms of the
    differences of means and of standard deviations of the rows, as the released cost does.

    >>> rows = np.array([[0.0], [1.0], [2.0], [4.0]])
    >>> DistanceScorer(rows, bins=3)(np.array([[0, 1, 2], [0, 2, 3]])).round(3)
    array([0.667, 0.333])
    """

    def __init__(
        self, rows: np.ndarray, reference: np.ndarray | None = None, *, bins: int = 50, moments: bool = False
    ) -> None:
        self.rows, self.bins, self.moments = rows, bins, moments
        self.reference = rows if reference is None else reference
        self.distances = pairwise(rows)
        whole = self.distances if reference is None else pairwise(reference)
        between = whole.ravel()[1:].reshape(len(whole) - 1, -1)[:, :-1]  # without the diagonal
        self.low, self.high = float(between.min()), float(between.max())
        if bins:
            self._codes = codes(self.distances, self.low, self.high, bins)
            self.histogram = self._shares(self._codes if reference is None else codes(whole, self.low, self.high, bins))
        else:
            self._whole = _pairs(whole)

    def __call__(self, candidates: np.ndarray) -> np.ndarray:
        scores: np.ndarray
        if self.bins:
            width = (self.high - self.low) / self.bins
            gaps = self.shares(candidates).cumsum(axis=1) - self.histogram.cumsum()
            scores = width * np.abs(gaps).sum(axis=1)
        else:
            from scipy.stats import wasserstein_distance

            blocks = (_pairs(self.distances[rows[:, None], rows]) for rows in candidates)
            scores = np.array([wasserstein_distance(block, self._whole) for block in blocks])
        if self.moments:
            batches = self.rows[candidates]
            means = batches.mean(axis=1) - self.reference.mean(axis=0)
            deviations = batches.std(axis=1) - self.reference.std(axis=0)
            scores = WEIGHT * scores + np.linalg.norm(means, axis=1) + np.linalg.norm(deviations, axis=1)
        return scores

    def shares(self, candidates: np.ndarray) -> np.ndarray:
        """(candidates, bins): share of a batch's pairs in each bin."""
        return np.stack([self._shares(self._codes[rows].take(rows, axis=1)) for rows in candidates])

    def _shares(self, block: np.ndarray) -> np.ndarray:
        counts = np.bincount(block.ravel(), minlength=self.bins)
        counts[0] -= len(block)  # the diagonal: distance 0 is in the first bin
        return np.asarray(counts / (len(block) * (len(block) - 1)))


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


def _pairs(distances: np.ndarray) -> np.ndarray:
    return np.asarray(distances[np.triu_indices(len(distances), 1)])


@register("ddm", "the one of 10 SPC batches whose distance distribution is closest to that of a pool")
class DistanceMatching(BestOfCandidates):
    """Roth et al. 2020, DDM. O(pool^2 dim + candidates batch^2) per batch.

    distance: `bins` (a histogram with `bins` equal bins) or `exact` (raw samples, slower).
    moments: also match mean and standard deviation of the embeddings, as the released cost does.

    >>> labels, rows = np.repeat(np.arange(8), 4), np.random.default_rng(0).normal(size=(32, 3))
    >>> DistanceMatching(labels, batch_size=8).plan(0, rows).shape
    (4, 8)
    """

    distance: Literal["bins", "exact"] = "bins"
    bins: Count = 50  # Roth et al. 2020, released code
    moments: bool = False

    def _scorer(self, rows: np.ndarray) -> Scorer:
        return DistanceScorer(rows, bins=self.bins if self.distance == "bins" else 0, moments=self.moments)
