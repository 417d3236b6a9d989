"""Crossed design, seeds x classes: the variance of a score and of a difference of two scores.

`A[m, s, c]` is the mean of a metric over the queries of class c, for seed s of method m. Two factors are random: the
test classes are a sample of classes of the same kind, and retraining gives a different network. A statement about
methods must hold for both (a crossed design, as in multi-reader multi-case studies: Dorfman, Berbaum and Metz 1992;
Gallas 2009). With D = A[i] - A[j]:

    V_c = spread of mean_s D over classes         that of the pair, plus one class with that of the average pair
    V_s = (v_i + v_j) / min(S_i, S_j)             v: a method's variance over seeds
    V_r = the part in both V_c and V_s            seeds that move single classes
    V   = max(V_c, V_s, V_c + V_s - V_r),  t = mean(D) / sqrt(V)
    df: Satterthwaite's, from V_c and an upper bound of V_s

Three seeds give a poor estimate of one method's variance, and the pooled variance of all methods is wrong for a method
that is noisier than the others. So v is a weighted mean of the method's own variance (weight S - 1, its degrees of
freedom) and the pooled variance (weight PRIOR). Rows with different numbers of seeds are compared as if both had the
smaller number: many seeds of a stable method say nothing about a noisy one with two. If the variance is small by
chance, t is large, and degrees of freedom from the same estimate would be too many. So they are computed from the
largest variance over seeds that is not UNLIKELY. For deterministic methods they are those of the classes.
`benchmarks/calibration.py` simulates the resulting error rates.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from levelfield.errors import BadInput

Floats = np.ndarray[Any, np.dtype[np.float64]]
MIN_CLASSES = 5  # with fewer, tests do not keep their level and intervals not their coverage
PRIOR = 4.0  # weight, in degrees of freedom, of the pooled variance over seeds
UNLIKELY = 0.1  # probability that a variance over seeds exceeds the bound used for degrees of freedom
_ROUNDING = 1e-12  # a variance below this share of the squared scores is rounding


@dataclass(frozen=True)
class ClassWeights:
    """Shares of the classes in a score, which is the mean over queries.

    `influence @ (values - score) ** 2` estimates the variance of the score over other draws of classes: each class is
    weighted by its share and corrected for the part of its deviation that subtracting the score removes. The estimate
    is unbiased if all classes vary equally (Bell and McCaffrey 2002). `freedom` is its degrees of freedom: C - 1 for
    classes of equal size, fewer if some classes are much larger than others.

    >>> weights = ClassWeights.of([5, 5, 5, 5])
    >>> weights.shares.tolist(), round(weights.freedom, 6)
    ([0.25, 0.25, 0.25, 0.25], 3.0)
    >>> round(ClassWeights.of([50, 5, 5, 5]).freedom, 2)
    1.03
    """

    shares: Floats
    influence: Floats
    freedom: float

    @classmethod
    def of(cls, queries: npt.ArrayLike) -> ClassWeights:
        """Create from the number of queries of each class."""
        counts = np.asarray(queries, dtype=np.float64)
        shares = counts / counts.sum()
        squares = float(shares @ shares)
        if len(shares) == 1:
            return cls(shares, np.zeros(1), 0.0)
        influence = shares**2 / (1 - 2 * shares + squares)
        # Satterthwaite's degrees of freedom of the quadratic form, tr(B)^2 / tr(B^2) with B = (I - w1') G (I - 1w')
        w, g, total = shares, influence, float(influence.sum())
        wg, gg = float(w @ g), float(g @ g)
        trace = total - 2 * wg + squares * total
        mixed = -2 * float((g * g) @ w) + total * float(g @ (w * w))
        outer = 2 * wg**2 + 2 * squares * gg - 4 * total * squares * wg + (total * squares) ** 2
        return cls(shares, influence, trace**2 / (gg + 2 * mixed + outer))

    def __len__(self) -> int:
        return len(self.shares)

    @property
    def concentration(self) -> float:
        """Sum of the squared shares: 1 / C for classes of equal size."""
        return float(self.shares @ self.shares)


@dataclass(frozen=True)
class Variance:
    """Variances of scores or differences, as arrays: by classes, by seeds, shared, total, and degrees of freedom."""

    classes: Floats
    seeds: Floats
    residual: Floats
    total: Floats
    freedom: Floats
    seeds_freedom: Floats


@dataclass(frozen=True)
class Differences:
    """All pairs of a table: positions of the two rows, their difference, and its variance.

    tested: whether a test is possible (at least 5 classes, and not the same difference in all of them).
    retrained: whether the variance includes retraining.
    """

    labels: list[str]
    first: np.ndarray
    second: np.ndarray
    difference: Floats
    variance: Variance
    tested: np.ndarray
    retrained: np.ndarray
    classes: int
    classes_freedom: float
    seeds: np.ndarray  # number of seeds of each row
    fewest: Floats  # the smaller number of seeds of the two rows

    @property
    def error(self) -> Floats:
        """Standard error; 1 if the difference is the same in every class."""
        return np.asarray(np.sqrt(np.where(self.variance.classes > 0, self.variance.total, 1.0)))


@dataclass(frozen=True)
class ScoreMoments:
    """Scores of methods, reduced to the statistics that the variances need.

    means `[rows]`; spread `[rows, rows]`: covariance of class means, weighted by the influence of classes; noise and
    residual `[rows]`: variance over seeds of a single seed's score, and its part from seeds that move single classes.
    """

    labels: list[str]
    weights: ClassWeights
    means: Floats
    spread: Floats
    noise: Floats
    residual: Floats
    seeds: np.ndarray
    fixed: np.ndarray

    @classmethod
    def of(
        cls, rows: Mapping[str, npt.ArrayLike], queries: npt.ArrayLike, *, fixed: Collection[str] = ()
    ) -> ScoreMoments:
        """Create from rows `[seeds, classes]` by label; fixed: deterministic rows (no variance over seeds)."""
        weights = ClassWeights.of(queries)
        values = {label: checked(row, label, len(weights)) for label, row in rows.items()}
        class_means = np.stack([row.mean(axis=0) for row in values.values()])
        means = class_means @ weights.shares
        centred = class_means - means[:, None]
        noise, residual = np.array([_over_seeds(row, weights) for row in values.values()]).T
        return cls(
            list(values),
            weights,
            means,
            (centred * weights.influence) @ centred.T,
            noise,
            residual,
            np.array([len(row) for row in values.values()]),
            np.array([label in fixed for label in values]),
        )

    def differences(self, *pair: str) -> Differences:
        """All pairs in the order of the rows, or one pair given by its labels."""
        if pair:
            first, second = (np.array([self.labels.index(label)]) for label in pair)
        else:
            first, second = np.triu_indices(len(self.labels), 1)
        spread = np.diagonal(self.spread)
        both = spread[first] + spread[second]
        by_classes = np.maximum(both - 2 * self.spread[first, second], 0.0)
        varies = by_classes > _ROUNDING * both
        # a few classes may agree by chance, so one more class is counted, which varies like the average pair
        rows, classes = len(self.labels), len(self.weights)
        average = (rows * np.trace(self.spread) - self.spread.sum()) / max(rows * (rows - 1) / 2, 1)
        by_classes = np.where(varies, ((classes - 1) * by_classes + average) / classes, 0.0)
        tested = varies & (len(self.weights) >= MIN_CLASSES)
        moved = ~(self.fixed[first] & self.fixed[second])
        tried = self.fixed | (self.seeds > 1)  # neither one seed nor other methods tell a method's variance
        return Differences(
            self.labels,
            first,
            second,
            self.means[first] - self.means[second],
            self.variance(by_classes, first, second),
            tested,
            moved & tried[first] & tried[second],
            len(self.weights),
            self.weights.freedom,
            self.seeds,
            self._fewest(first, second),
        )

    def variance(self, by_classes: Floats, *members: np.ndarray) -> Variance:
        """Variances of scores (one array of positions) or differences (two), given the variance over classes."""
        known = np.where(self.fixed, 0.0, self.seeds - 1.0)  # degrees of freedom of each row's noise
        pool = (known > 0) / max((known > 0).sum(), 1)  # share of each method in the pooled variance
        fewest = self._fewest(*members)
        counted = [np.where(self.fixed[rows], 0.0, 1 / ((PRIOR + fewest - 1) * fewest)) for rows in members]
        individual, common = [(fewest - 1) * part for part in counted], PRIOR * np.sum(counted, axis=0)
        seeds, residual = (
            common * (pool @ part) + sum(share * part[rows] for share, rows in zip(individual, members, strict=True))
            for part in (self.noise, self.residual)
        )
        squares = self.noise**2 / known[known > 0].min(initial=np.inf)  # variance of the noise estimates
        doubt = common**2 * (pool**2 @ squares)
        for alone, rows in zip(individual, members, strict=True):
            share = common * pool[rows]
            doubt = doubt + ((alone + share) ** 2 - share**2) * squares[rows]
        total = np.maximum(np.maximum(by_classes, seeds), by_classes + seeds - residual)
        seeds_freedom = np.where(doubt > 0, seeds**2 / np.where(doubt > 0, doubt, 1.0), np.inf)
        freedom = degrees_of_freedom(by_classes, self.weights.freedom, seeds, seeds_freedom)
        return Variance(by_classes, seeds, residual, total, freedom, seeds_freedom)

    def _fewest(self, *members: np.ndarray) -> Floats:
        """Smallest number of seeds among the rows that are not fixed; 1 if all are fixed."""
        trained = [np.where(self.fixed, np.inf, self.seeds)[rows] for rows in members]
        fewest: Floats = np.min(trained, axis=0)
        return np.where(np.isfinite(fewest), fewest, 1.0)


def checked(values: npt.ArrayLike, label: str, classes: int) -> Floats:
    """Validate a row `[seeds, classes]`."""
    rows = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if rows.shape[1] != classes:
        raise BadInput(
            f"'{label}' has {rows.shape[1]} classes but the weights have {classes}; both need the same classes."
        )
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        raise BadInput(f"'{label}' contains NaN or infinity; the first is at seed {bad[0][0]}, class {bad[0][1]}.")
    return rows


def _over_seeds(values: Floats, weights: ClassWeights) -> tuple[float, float]:
    """Variance of the score over seeds, and its part from seeds that move single classes; 0 for one seed."""
    if len(values) == 1:
        return 0.0, 0.0
    figures = values @ weights.shares
    moved = values - values.mean(axis=0) - (figures - figures.mean())[:, None]
    return float(figures.var(ddof=1)), float((moved**2 @ weights.influence).sum() / (len(values) - 1))


def degrees_of_freedom(
    by_classes: Floats, classes_freedom: float | Floats, seeds: Floats, seeds_freedom: Floats
) -> Floats:
    """Satterthwaite's degrees of freedom for the sum of a variance by classes and an upper bound of that by seeds.

    At most those of the classes: otherwise a few classes that agree by chance would count as well known.
    """
    from scipy.special import chdtri

    varies = np.isfinite(seeds_freedom)
    known, at = np.unique(np.where(varies, seeds_freedom, 1.0), return_inverse=True)  # few values; chdtri is slow
    bound = seeds * np.where(varies, (known / chdtri(known, 1 - UNLIKELY))[at], 1.0)
    share = bound / np.maximum(by_classes + bound, np.finfo(np.float64).tiny)
    least = np.maximum(classes_freedom, 1e-9)
    return np.asarray(np.minimum(1 / ((1 - share) ** 2 / least + share**2 / seeds_freedom), classes_freedom))
