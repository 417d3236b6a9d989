"""FRD: the candidate batch whose mean and covariance are closest to those of the pool."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from levelfield.batching._candidates import BestOfCandidates, Scorer
from levelfield.batching._registry import register


class Normal(NamedTuple):
    """Mean and covariance (over n - 1)."""

    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> Normal:
        centred = rows - rows.mean(axis=0)
        return cls(rows.mean(axis=0), centred.T @ centred / (len(rows) - 1))


class FrechetScorer:
    """Squared Frechet distances of batches from `reference`, without a matrix root and for covariances of any rank.

    |m1 - m2|^2 + tr C1 + tr C2 - 2 tr (C1 C2)^(1/2). The last trace is the sum of singular values of B C1^(1/2) /
    sqrt(b - 1), B the centred batch: the roots of the eigenvalues of B C1 B^T / (b - 1). With H = X C1 X^T of all rows
    computed once, that is a block of H, centred on both sides: b x b for any dimension.

    rows: (pool, dim) float64. reference: the rows themselves if not given.

    >>> rows = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> FrechetScorer(rows)(np.array([[0, 1, 2, 3], [0, 0, 3, 3]])).round(3)  # gap of the standard deviations, squared
    array([0.   , 0.195])
    """

    def __init__(self, rows: np.ndarray, reference: Normal | None = None) -> None:
        self.rows = rows - (rows.mean(axis=0) if reference is None else reference.mean)
        if reference is None and rows.shape[1] >= len(rows):  # C1 = X^T X / (p - 1), so H = (X X^T)^2 / (p - 1)
            inner = self.rows @ self.rows.T
            self.product = inner @ inner.T / (len(rows) - 1)
            self.trace = float(np.trace(inner)) / (len(rows) - 1)
        else:
            covariance = Normal.of(self.rows).covariance if reference is None else reference.covariance
            self.product = self.rows @ covariance @ self.rows.T
            self.trace = float(np.trace(covariance))
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
        mean_term, covariance_term = self.terms(candidates)
        scores: np.ndarray = mean_term + covariance_term
        return scores


@register("frd", "the one of 10 SPC batches whose mean and covariance are closest to those of a pool")
class FrechetMatching(BestOfCandidates):
    """Roth et al. 2020, FRD. O(pool^2 dim + candidates batch^3) per batch.

    >>> labels, rows = np.repeat(np.arange(8), 4), np.random.default_rng(0).normal(size=(32, 3))
    >>> FrechetMatching(labels, batch_size=8).plan(0, rows).shape
    (4, 8)
    """

    def _describe(self, rows: np.ndarray) -> Normal:
        return Normal.of(rows)

    def _scorer(self, rows: np.ndarray, reference: Normal | None) -> Scorer:
        return FrechetScorer(rows, reference)
