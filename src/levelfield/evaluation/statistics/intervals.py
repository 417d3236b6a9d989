"""Interval of one score, over test classes and retraining or over runs alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from levelfield.errors import BadInput, BadSpecification
from levelfield.evaluation.statistics.crossed import MIN_CLASSES, Floats, ScoreMoments

UNSEEN = 1.0  # classes not drawn, which may differ as much as a score in [0, 1] allows


@dataclass(frozen=True)
class Interval:
    """A mean and its interval."""

    mean: float
    low: float
    high: float
    level: float = 0.95

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


NO_ENDS = (math.nan, math.nan)  # of an interval that does not exist


def ends(interval: Interval | None) -> tuple[float, float]:
    """Both ends; NaN if there is no interval."""
    return NO_ENDS if interval is None else (interval.low, interval.high)


def figure_intervals(table: ScoreMoments, *, level: float = 0.95) -> list[Interval | None]:
    """Interval of each row of a table; None below 5 classes, or if all classes have the same score other than 0 or 1.

    Student's t with Satterthwaite's degrees of freedom, on the logit (for scores in (0, 1), such as all retrieval
    metrics): the interval stays in [0, 1] and is longer on the side with more room. A few classes may all be easy by
    chance and vary too little, so one more class is counted, with the largest variance of a score in [0, 1], mean (1 -
    mean). A score of exactly 0 or 1 has a bound on one side, from the share of different classes that may have been
    missed.

    >>> [interval] = figure_intervals(ScoreMoments.of({"a": [[0.9, 0.7, 0.8, 1.0, 0.9]]}, [5] * 5))
    >>> round(interval.low, 3), round(interval.mean, 3), round(interval.high, 3)
    (0.475, 0.86, 0.977)
    """
    from scipy.special import expit, logit, stdtrit

    means, weights = table.means, table.weights
    known = np.diagonal(table.spread) > 1e-15
    if len(weights) < MIN_CLASSES:
        return [None] * len(means)
    inside = (means > 0) & (means < 1)
    room = np.where(inside, means * (1 - means), 1.0)
    seen = len(weights) - 1.0
    widened = (seen * np.diagonal(table.spread) + UNSEEN * room * weights.concentration) / (seen + UNSEEN)
    variance = table.variance(np.where(inside, widened, np.diagonal(table.spread)), np.arange(len(means)))
    half = stdtrit(variance.freedom, (1 + level) / 2) * np.sqrt(variance.total)
    centre = logit(np.where(inside, means, 0.5))
    low, high = (np.where(inside, expit(centre + sign * half / room), means + sign * half) for sign in (-1, 1))
    bounds = zip(means.tolist(), low.tolist(), high.tolist(), known.tolist(), strict=True)
    return [Interval(mean, least, most, level) if is_known else _one_sided(mean, 1 / weights.concentration, level)
            for mean, least, most, is_known in bounds]  # fmt: skip


def class_interval(values: npt.ArrayLike, queries: npt.ArrayLike, *, level: float = 0.95) -> Interval | None:
    """Interval of one score over test classes; values `[seeds, classes]` or `[classes]`."""
    means = np.atleast_2d(np.asarray(values, dtype=np.float64)).mean(axis=0)
    return figure_intervals(ScoreMoments.of({"figure": means}, queries, fixed=["figure"]), level=level)[0]


def largest_share(seen: float, units: float, level: float) -> float:
    """Upper end of Clopper and Pearson's interval for a share `seen`; the number of units need not be an integer."""
    from scipy.special import betaincinv

    count = seen * units
    if count > units - 1e-9:
        return 1.0
    return float(betaincinv(count + 1, units - count, (1 + level) / 2))


def _one_sided(mean: float, units: float, level: float) -> Interval | None:
    """Interval of a score that is 0 or 1 in every class, up to rounding."""
    unlike = largest_share(0.0, units, level)
    if abs(mean) < 1e-12:
        return Interval(mean, 0.0, unlike, level)
    return Interval(mean, 1 - unlike, 1.0, level) if abs(mean - 1) < 1e-12 else None


def t_interval(values: Sequence[float] | Floats, *, level: float = 0.95) -> Interval | None:
    """Mean over runs with Student's interval, mean +- t s / sqrt(n); None for a single run.

    >>> interval = t_interval([0.60, 0.62, 0.61])
    >>> round(interval.mean, 4), round(interval.half_width, 4)
    (0.61, 0.0248)
    """
    runs = np.asarray(values, dtype=np.float64)
    if runs.ndim != 1 or not np.isfinite(runs).all() or not len(runs):
        raise BadInput(f"An interval over runs needs one finite value per run, not {runs.tolist()}.")
    if len(runs) == 1:
        return None
    from scipy.special import stdtrit

    half = float(stdtrit(len(runs) - 1, (1 + level) / 2)) * float(runs.std(ddof=1)) / math.sqrt(len(runs))
    mean = float(runs.mean())
    return Interval(mean, mean - half, mean + half, level)


def paired_interval(
    difference: float, first: npt.ArrayLike, second: npt.ArrayLike, queries: npt.ArrayLike, *, level: float = 0.95
) -> Interval:
    """The difference of two scores with Student's interval over the differences of each class; both ends are NaN if
    there is none. first, second: the two scores of each class, `[classes]` or `[seeds, classes]`."""
    from scipy.special import stdtrit

    pair = ScoreMoments.of({"first": first, "second": second}, queries, fixed=("first", "second")).differences()
    if not pair.tested[0]:
        return Interval(difference, math.nan, math.nan, level)
    half = float(stdtrit(pair.variance.freedom[0], (1 + level) / 2) * pair.error[0])
    return Interval(difference, difference - half, difference + half, level)


def check_level(level: float | None) -> None:
    """Refuse a confidence level outside 0 to 1; None: no interval is wanted."""
    if level is not None and not 0 < level < 1:
        raise BadSpecification(f"ci={level}: the confidence level must be between 0 and 1, e.g. 0.95.")
