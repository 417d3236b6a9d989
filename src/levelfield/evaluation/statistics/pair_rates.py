"""Error rates of pair decisions: intervals over test classes, and a test of the difference of two rates.

A positive pair belongs to one class, a negative pair to two. A class moves the rate by the share of its pairs. The
variance over classes is the sum of the squared moves (for two classes per pair the first term of a U-statistic's
variance, Hoeffding 1948; the second is counted twice, so it is never too small). If errors are rare, that sum misses
three effects:

    classes unlike those drawn                UNSEEN more are counted, which vary as much as a rate can
    few classes with errors                   degrees of freedom are at most the number of classes with errors
    no error at all                           Clopper and Pearson's bound on the share of classes with errors

`benchmarks/calibration.py` simulates the coverage of the intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from levelfield.evaluation.statistics.crossed import MIN_CLASSES, ClassWeights, Floats
from levelfield.evaluation.statistics.intervals import Interval, largest_share

UNSEEN = 3.0  # rule of three: a property of 3 in C classes may be absent from a sample of C
SPREAD = 3.0  # a class's rate against all others varies by at most this many times the rate


@dataclass(frozen=True)
class PairRate:
    """Share of wrong pair decisions, by class.

    errors, pairs: numbers of each class. members: number of classes that a pair belongs to (1 or 2).

    >>> misses = PairRate(np.array([1, 0, 2, 0, 1, 0]), np.full(6, 10), members=1)
    >>> interval = misses.interval(0.95)
    >>> round(interval.low, 4), round(interval.mean, 4), round(interval.high, 4)
    (0.0017, 0.0667, 0.7468)
    >>> interval = PairRate(np.zeros(60), np.full(60, 10), members=1).interval(0.95)
    >>> interval.low, round(interval.high, 4)
    (0.0, 0.0596)
    """

    errors: Floats
    pairs: Floats
    members: int

    @cached_property
    def weights(self) -> ClassWeights:
        """Weights of the classes that have pairs."""
        return ClassWeights.of(self.pairs[self._has_pairs])

    @property
    def classes(self) -> int:
        """Number of classes that have pairs."""
        return int(self._has_pairs.sum())

    @property
    def value(self) -> float:
        return float(self.errors.sum() / self.pairs.sum())

    @cached_property
    def moves(self) -> Floats:
        """Effect of each class on the rate; the sum of squares is the variance over classes."""
        moves = np.zeros(len(self.pairs))
        own = self.errors[self._has_pairs] / self.pairs[self._has_pairs]
        moves[self._has_pairs] = np.sqrt(self.weights.influence) * (own - self.value)
        if self.members == 1:
            return moves
        # with two classes per pair, a class's rate contains those of others, which reduces its deviation
        result: Floats = self.members * (self.classes - 1) / (self.classes - 2) * moves
        return result

    @property
    def effective(self) -> float:
        """Effective number of classes of equal size."""
        return 1 / self.weights.concentration

    def unseen(self, rate: float) -> float:
        """Contribution of one more class to the variance, if it varied as much as possible at `rate`."""
        most = rate * (1 - rate)
        if self.members > 1:
            most = min(most, (SPREAD * min(rate, 1 - rate)) ** 2)
        return self.members**2 * most * self.weights.concentration

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the classes, at most the effective number of classes with errors."""
        right = self.pairs - self.errors
        return min([self.weights.freedom, *(_divided(part) for part in (self.errors, right) if part.any())])

    def interval(self, level: float) -> Interval | None:
        """Interval by Student's t on the logit, within the bounds of the share of classes with errors; None below 5
        classes with pairs. A rate of 0 (or 1) has a bound on one side."""
        from scipy.special import expit, logit, stdtrit

        if self.classes < MIN_CLASSES:
            return None
        rate, units = self.value, self.effective / self.members
        with_errors, with_right = (float(self.weights.shares[part[self._has_pairs] > 0].sum())
                                   for part in (self.errors, self.pairs - self.errors))  # fmt: skip
        low, high = 1 - largest_share(with_right, units, level), largest_share(with_errors, units, level)
        if 0 < rate < 1:
            room = rate * (1 - rate)
            variance = widened(float(self.moves @ self.moves), self.unseen(rate), self.effective)
            half = stdtrit(self.freedom, (1 + level) / 2) * np.sqrt(variance) / room
            low, high = max(low, float(expit(logit(rate) - half))), min(high, float(expit(logit(rate) + half)))
        return Interval(rate, low, high, level)

    @property
    def _has_pairs(self) -> np.ndarray:
        result: np.ndarray = self.pairs > 0
        return result


def differ(match: PairRate, miss: PairRate, level: float) -> bool:
    """Whether two rates of the same classes differ significantly: Student's t over classes.

    match: rates of negative pairs; miss: rates of positive pairs. Unseen classes vary as if both rates were equal.

    >>> seldom = PairRate(np.arange(20) % 2, np.full(20, 50), members=2)
    >>> differ(seldom, PairRate(4 + np.arange(20) % 3, np.full(20, 10), members=1), 0.95)
    True
    """
    from scipy.special import stdtrit

    rate = (match.value + miss.value) / 2
    moves = match.moves - miss.moves
    unseen = match.unseen(rate) + miss.unseen(rate)
    variance = widened(float(moves @ moves), unseen, min(match.effective, miss.effective))
    freedom = min(match.weights.freedom, miss.weights.freedom)
    return bool(abs(match.value - miss.value) > stdtrit(freedom, (1 + level) / 2) * np.sqrt(variance))


def widened(seen: float, unseen: float, effective: float) -> float:
    """Variance over `effective` drawn classes and UNSEEN further classes."""
    return ((effective - 1) * seen + UNSEEN * unseen) / (effective - 1 + UNSEEN)


def _divided(counts: Floats) -> float:
    """Effective number of classes that share the counts; fewer if some classes have most of them."""
    return float(counts.sum() ** 2 / (counts.astype(np.float64) ** 2).sum())
