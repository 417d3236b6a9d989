"""Other tests of the same data: levelfield's former ones, the textbook's, an exact one, and an oracle."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np
from scipy.special import ndtr, stdtr

from levelfield.evaluation.statistics.crossed import ClassWeights

DRAWS = 2000  # enough for a p-value that survives 45 pairs, 2 / (draws + 1); the old test used 10,000 or more


def percentile_bootstrap(values: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """p-value of every pair by levelfield's former test: classes resampled, seeds fixed."""
    class_means = values.mean(axis=1)
    counts = _drawn(values.shape[2])
    sums = counts @ np.concatenate([class_means * queries, queries[None]]).T
    figures = sums[:, :-1] / sums[:, -1:]
    first, second = np.array(list(combinations(range(len(values)), 2))).T
    apart = figures[:, first] - figures[:, second]
    fewer = np.minimum((apart <= 1e-12).sum(axis=0), (apart >= -1e-12).sum(axis=0))
    return np.minimum(1.0, 2 * (1 + fewer) / (len(counts) + 1))


def percentile_interval(values: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """95 % interval of every score by levelfield's former method, [2, methods]."""
    sums = _drawn(values.shape[2]) @ np.concatenate([values.mean(axis=1) * queries, queries[None]]).T
    return np.quantile(sums[:, :-1] / sums[:, -1:], [0.025, 0.975], axis=0)


def percentile_rate(errors: np.ndarray, pairs: np.ndarray) -> tuple[float, float]:
    """95 % interval of a rate of wrong pairs by levelfield's former method: classes resampled.

    errors, pairs: [classes] for pairs of one class, [classes, classes] above the diagonal for pairs of two (pairs of
    two copies of a class are excluded).
    """
    counts = _drawn(len(errors))
    if errors.ndim == 1:
        wrong, every = counts @ errors, counts @ pairs
    else:
        wrong, every = (((counts @ np.triu(table, 1)) * counts).sum(axis=1) for table in (errors, pairs))
    low, high = np.quantile(wrong[every > 0] / every[every > 0], [0.025, 0.975])
    independent = len(errors) // errors.ndim
    return float(low), float(high) if errors.any() else 1 - 0.025 ** (1 / independent)


def classes_only(values: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """p-value of every pair by Student's t-test over classes, ignoring seeds."""
    differences, weights = _differences(values, queries)
    figures = differences @ weights.shares
    error = np.sqrt((differences - figures[:, None]) ** 2 @ weights.influence)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * stdtr(weights.freedom, -np.abs(figures) / error)
    return np.where(error > 1e-12, p, 1.0)


def sign_flips(values: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """p-value of every pair by flipping the signs of the classes' differences: exact if these are symmetric."""
    differences, weights = _differences(values, queries)
    parts = differences * weights.shares
    flipped = np.abs(_signs(values.shape[2]) @ parts.T)
    return (1 + (flipped >= np.abs(parts.sum(axis=1)) - 1e-12).sum(axis=0)) / (len(flipped) + 1)


def oracle(difference: np.ndarray, true_error: np.ndarray) -> np.ndarray:
    """p-value of every pair with known standard errors."""
    return 2 * ndtr(-np.abs(difference) / true_error)


def _differences(values: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, ClassWeights]:
    first, second = np.array(list(combinations(range(len(values)), 2))).T
    class_means = values.mean(axis=1)
    return class_means[first] - class_means[second], ClassWeights.of(queries)


@lru_cache(maxsize=2)
def _drawn(classes: int) -> np.ndarray:
    """Count of each class in each bootstrap draw, [draws, classes]."""
    chosen = np.random.default_rng(0).integers(classes, size=(DRAWS, classes)) + np.arange(DRAWS)[:, None] * classes
    return np.bincount(chosen.ravel(), minlength=DRAWS * classes).reshape(DRAWS, classes).astype(np.float64)


@lru_cache(maxsize=2)
def _signs(classes: int) -> np.ndarray:
    return np.random.default_rng(classes).choice([-1.0, 1.0], (DRAWS, classes))
