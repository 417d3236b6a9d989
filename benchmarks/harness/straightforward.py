"""Straightforward versions of the embedding-aware batchings: the same pools and batches, computed directly.

Each replaces a scorer (or the choice of anchors) in our batching, so that all other work is the same.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import sqrtm
from scipy.stats import multivariate_normal

from levelfield.batching import D2Coreset, DistanceMatching, FrechetMatching, GreedyCoreset
from levelfield.batching.coresets import TINY
from levelfield.batching.matching import Scorer


class StraightFRD(FrechetMatching):
    """A matrix root of the product of both covariances for each candidate."""

    def _scorer(self, rows: np.ndarray) -> Scorer:
        mean, covariance = rows.mean(axis=0), np.cov(rows.T)

        def score(batch: np.ndarray) -> float:
            own = np.cov(batch.T)
            gap = mean - batch.mean(axis=0)
            root = sqrtm(covariance @ own)
            return float(gap @ gap + np.trace(covariance) + np.trace(own) - 2 * np.trace(root).real)

        return lambda candidates: np.array([score(rows[chosen]) for chosen in candidates])


class StraightDDM(DistanceMatching):
    """The distances of each candidate computed from its rows, and a histogram of them."""

    def _scorer(self, rows: np.ndarray) -> Scorer:
        pool = distances(rows)[np.triu_indices(len(rows), 1)]
        low, high = pool.min(), pool.max()

        def cumulated(values: np.ndarray) -> np.ndarray:
            counts = np.histogram(values.clip(low, high), bins=self.bins, range=(low, high))[0]
            return np.cumsum(counts) / len(values)

        aim = cumulated(pool)

        def score(batch: np.ndarray) -> float:
            own = cumulated(distances(batch)[np.triu_indices(len(batch), 1)])
            return float((high - low) / self.bins * np.abs(own - aim).sum())

        return lambda candidates: np.array([score(rows[chosen]) for chosen in candidates])


class StraightGC(GreedyCoreset):
    """All distances; each pick compares those to all chosen rows."""

    def _prepare(self, rows: np.ndarray) -> np.ndarray:  # type: ignore[override]
        return distances(rows)

    def _anchors(  # type: ignore[override]
        self, prepared: np.ndarray, classes: np.ndarray, stream: np.random.Generator
    ) -> np.ndarray:
        selected = [int(stream.integers(len(prepared)))]
        while len(selected) < self.classes_per_batch:
            nearest = prepared[:, selected].min(axis=1)
            nearest[np.isin(classes, classes[selected])] = -np.inf
            selected.append(int(nearest.argmax()))
        return np.array(selected)


class StraightD2(D2Coreset):
    """scipy's normal distribution; each draw computes the squared distances to all chosen rows."""

    def _prepare(self, rows: np.ndarray) -> np.ndarray:  # type: ignore[override]
        return rows

    def _anchors(  # type: ignore[override]
        self, prepared: np.ndarray, classes: np.ndarray, stream: np.random.Generator
    ) -> np.ndarray:
        mean, covariance = prepared.mean(axis=0), np.cov(prepared.T)
        tiny = TINY * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
        if np.linalg.eigvalsh(covariance)[0] <= tiny[0, 0]:
            covariance += tiny
        density = multivariate_normal(mean, covariance, allow_singular=True).logpdf(prepared)
        drawn = mean + np.linalg.cholesky(covariance) @ stream.normal(size=len(mean))
        selected = [int(((prepared - drawn) ** 2).sum(axis=1).argmin())]
        for uniform in stream.random(self.classes_per_batch - 1):
            sums = (distances(prepared, prepared[selected]) ** 2).sum(axis=1)
            with np.errstate(divide="ignore"):  # the chosen row itself
                weight = density + self.power * np.log(sums)
            weight[np.isin(classes, classes[selected])] = -np.inf
            chance = np.exp(weight - weight.max())
            total = chance.cumsum()
            selected.append(int(np.searchsorted(total / total[-1], uniform, side="right")))
        return np.array(selected)


def distances(rows: np.ndarray, others: np.ndarray | None = None) -> np.ndarray:
    """(rows, others) Euclidean, by a product: a difference for each pair would be slower still.

    >>> distances(np.array([[0.0, 0], [3, 4]]))
    array([[0., 5.],
           [5., 0.]])
    """
    others = rows if others is None else others
    squares = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * rows @ others.T
    found: np.ndarray = np.sqrt(np.maximum(squares, 0))
    return found
