"""Seeds x classes, both random: the variance of a figure and of a difference of two figures.

`A[m, s, c]` is the mean of a metric over the queries of class c, for seed s of method m. Two things happen by chance:
other classes of the same kind could have been the test classes, and training again gives another network. A statement
about methods must survive both (a crossed design, as in studies of many readers and many cases: Dorfman, Berbaum and
Metz 1992; Gallas 2009). With D = A[i] - A[j]:

    V_c = spread of mean_s D over classes         the pair's own, and one class more with that of the average pair
    V_s = (v_i + v_j) / min(S_i, S_j)             v: a method's variance over seeds
    V_r = what V_c and V_s both contain           seeds that move single classes
    V   = max(V_c, V_s, V_c + V_s - V_r),  t = mean(D) / sqrt(V)
    df: Satterthwaite's, from V_c and an upper bound of V_s

Three seeds say little about one method's variance, and all methods together say nothing about a method that is noisier
than the others. So v is a mean of the method's own variance, which counts as its S - 1 degrees of freedom, and that of
all methods, which counts as PRIOR. Rows with different numbers of seeds are compared as if both had as many as the one
with fewer: the many seeds of a calm method say nothing about a noisy one that has two. Where the variance is small by
chance, t is large; degrees of freedom from the same estimate would be many just then, as if seeds did not matter. So
they are those of the largest variance over seeds that is not UNLIKELY. Where seeds change nothing they are the
classes'. `benchmarks/calibration.py` simulates what all this does to false verdicts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from levelfield.errors import BadInput
from levelfield.evaluation.statistics.classes import ClassWeights, Floats

MIN_CLASSES = 5  # below, no test holds its level and no interval its coverage
PRIOR = 4.0  # degrees of freedom that all methods' variance over seeds counts beside a method's own
UNLIKELY = 0.1  # the chance that a variance over seeds is above the bound that degrees of freedom are taken from
_ROUNDING = 1e-12  # a variance below this share of the figures' own is rounding


@dataclass(frozen=True)
class Variance:
    """Of figures or differences, each an array: by classes, by seeds, in both, in all, and degrees of freedom."""

    classes: Floats
    seeds: Floats
    residual: Floats
    total: Floats
    freedom: Floats
    seeds_freedom: Floats


@dataclass(frozen=True)
class Differences:
    """All pairs of a table: positions of the two rows, how much the first is above the second, and its variance.

    tested: whether there is anything to test by (5 classes, and not the same difference in each of them).
    retrained: whether training again is part of the variance.
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
    seeds: np.ndarray  # of each row
    fewest: Floats  # of the two rows' seeds, which their variance is of


@dataclass(frozen=True)
class Table:
    """Figures of methods, reduced to what the variances need.

    means `[rows]`; spread `[rows, rows]`: of the rows' class means, by the influence of classes; noise and residual
    `[rows]`: variance over seeds of a single seed's figure, and the part of it by which seeds move single classes.
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
    def of(cls, rows: Mapping[str, npt.ArrayLike], queries: npt.ArrayLike, *, fixed: Collection[str] = ()) -> Table:
        """Rows `[seeds, classes]` by label; fixed: those that no seed changes (they count as exact over seeds).

        >>> table = Table.of({"a": [[0.5, 0.7], [0.7, 0.9]], "b": [[0.4, 0.4]]}, [3, 3], fixed=["b"])
        >>> table.means.round(2).tolist(), table.noise.round(3).tolist()
        ([0.7, 0.4], [0.02, 0.0])
        """
        weights = ClassWeights.of(queries)
        values = {label: checked(row, label, len(weights)) for label, row in rows.items()}
        class_means = np.stack([row.mean(axis=0) for row in values.values()])
        means = class_means @ weights.shares
        centred = class_means - means[:, None]
        parts = [_over_seeds(row, weights) for row in values.values()]
        exact = np.array([label in fixed for label in values])
        return cls(
            list(values),
            weights,
            means,
            (centred * weights.influence) @ centred.T,
            np.array([noise for noise, _ in parts]),
            np.array([rest for _, rest in parts]),
            np.array([len(row) for row in values.values()]),
            exact,
        )

    def differences(self, *pair: str) -> Differences:
        """Of all pairs, in the order of the rows; or of one pair, given by its labels."""
        if pair:
            first, second = (np.array([self.labels.index(label)]) for label in pair)
        else:
            first, second = np.triu_indices(len(self.labels), 1)
        own = np.diagonal(self.spread)
        apart = own[first] + own[second]
        by_classes = np.maximum(apart - 2 * self.spread[first, second], 0.0)
        varies = by_classes > _ROUNDING * apart
        by_classes = np.where(varies, self._with_one_more(by_classes), 0.0)
        tested = varies & (len(self.weights) >= MIN_CLASSES)
        moved = ~(self.fixed[first] & self.fixed[second])
        tried = self.fixed | (self.seeds > 1)  # one seed says nothing of its method's variance, nor do other methods
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
        """Of figures (one array of positions) or of differences (two), given the part that classes have in it."""
        known = self._freedom()
        pool = (known > 0) / max((known > 0).sum(), 1)  # the share of each method in the pooled variance
        fewest = self._fewest(*members)
        counted = [np.where(self.fixed[rows], 0.0, 1 / ((PRIOR + fewest - 1) * fewest)) for rows in members]
        own, common = [(fewest - 1) * part for part in counted], PRIOR * np.sum(counted, axis=0)
        seeds, residual = (
            common * (pool @ part) + sum(share * part[rows] for share, rows in zip(own, members, strict=True))
            for part in (self.noise, self.residual)
        )
        squares = self.noise**2 / known[known > 0].min(initial=np.inf)  # of the noise's estimates, over their freedom
        doubt = common**2 * (pool**2 @ squares)
        for alone, rows in zip(own, members, strict=True):
            share = common * pool[rows]
            doubt = doubt + ((alone + share) ** 2 - share**2) * squares[rows]
        total = np.maximum(np.maximum(by_classes, seeds), by_classes + seeds - residual)
        seeds_freedom = np.where(doubt > 0, seeds**2 / np.where(doubt > 0, doubt, 1.0), np.inf)
        freedom = degrees_of_freedom(by_classes, self.weights.freedom, seeds, seeds_freedom)
        return Variance(by_classes, seeds, residual, total, freedom, seeds_freedom)

    def _with_one_more(self, by_classes: Floats) -> Floats:
        """Few classes may agree in their difference by chance, so one class more is counted, which varies as the
        average pair does."""
        rows, classes = len(self.labels), len(self.weights)
        average = (rows * np.trace(self.spread) - self.spread.sum()) / max(rows * (rows - 1) / 2, 1)
        more: Floats = ((classes - 1) * by_classes + average) / classes
        return more

    def _fewest(self, *members: np.ndarray) -> Floats:
        """Seeds of the row that has fewest, of those that seeds change; 1 if there is none."""
        trained = [np.where(self.fixed, np.inf, self.seeds)[rows] for rows in members]
        fewest: Floats = np.min(trained, axis=0)
        return np.where(np.isfinite(fewest), fewest, 1.0)

    def _freedom(self) -> Floats:
        freedom: Floats = np.where(self.fixed, 0.0, self.seeds - 1.0)
        return freedom


def checked(values: npt.ArrayLike, label: str, classes: int) -> Floats:
    """A row as `[seeds, classes]`, or what is wrong with it."""
    rows = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if rows.ndim != 2 or not rows.size:
        raise BadInput(f"'{label}' has shape {rows.shape}; expected (seeds, classes).")
    if rows.shape[1] != classes:
        raise BadInput(
            f"'{label}' has {rows.shape[1]} classes but the weights have {classes}; both need the same classes."
        )
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        raise BadInput(f"'{label}' contains NaN or infinity; the first is at seed {bad[0][0]}, class {bad[0][1]}.")
    return rows


def _over_seeds(values: Floats, weights: ClassWeights) -> tuple[float, float]:
    """Variance of the figure over seeds, and the part of it by which seeds move single classes; 0 for one seed."""
    if len(values) == 1:
        return 0.0, 0.0
    figures = values @ weights.shares
    moved = values - values.mean(axis=0) - (figures - figures.mean())[:, None]
    return float(figures.var(ddof=1)), float((moved**2 @ weights.influence).sum() / (len(values) - 1))


def degrees_of_freedom(
    by_classes: Floats, classes_freedom: float | Floats, seeds: Floats, seeds_freedom: Floats
) -> Floats:
    """Satterthwaite's, of a variance by classes and an upper bound of the one by seeds (of infinite freedom if 0).

    Never more than the classes': few classes that agree by chance would otherwise count as well known.

    >>> degrees_of_freedom(np.ones(3), 99.0, np.array([0.0, 0.1, 1.0]), np.array([np.inf, 2.0, 2.0])).round(1).tolist()
    [99.0, 8.2, 2.4]
    """
    from scipy.special import chdtri

    varies = np.isfinite(seeds_freedom)
    known, at = np.unique(np.where(varies, seeds_freedom, 1.0), return_inverse=True)  # few differ, and chdtri is slow
    bound = seeds * np.where(varies, (known / chdtri(known, 1 - UNLIKELY))[at], 1.0)
    share = bound / np.maximum(by_classes + bound, np.finfo(np.float64).tiny)
    least = np.maximum(classes_freedom, 1e-9)
    freedom: Floats = np.minimum(1 / ((1 - share) ** 2 / least + share**2 / seeds_freedom), classes_freedom)
    return freedom
