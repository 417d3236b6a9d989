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

    >>> interval = PairRate(np.array([1, 0, 2, 0, 1, 0]), np.full(6, 10), members=1).interval(0.95)
    >>> round(interval.low, 4), round(interval.mean, 4), round(interval.high, 4)
    (0.0017, 0.0667, 0.7468)
    """

    errors: Floats
    pairs: Floats
    members: int

    @cached_property
    def present(self) -> np.ndarray:
        """Classes that have pairs."""
        return np.asarray(self.pairs > 0)

    @property
    def classes(self) -> int:
        return int(self.present.sum())

    @cached_property
    def weights(self) -> ClassWeights:
        return ClassWeights.of(self.pairs[self.present])

    @property
    def value(self) -> float:
        return float(self.errors.sum() / self.pairs.sum())

    @cached_property
    def moves(self) -> Floats:
        """Effect of each class on the rate; the sum of squares is the variance over classes."""
        moves = np.zeros(len(self.pairs))
        rates = self.errors[self.present] / self.pairs[self.present]
        moves[self.present] = np.sqrt(self.weights.influence) * (rates - self.value)
        if self.members == 2:  # a class's rate contains those of others, which reduces its deviation
            moves *= 2 * (self.classes - 1) / (self.classes - 2)
        return moves

    @property
    def effective(self) -> float:
        """Effective number of classes of equal size."""
        return 1 / self.weights.concentration

    def unseen(self, rate: float) -> float:
        """Contribution of one more class to the variance, if it varied as much as possible at `rate`."""
        most = rate * (1 - rate)
        if self.members == 2:
            most = min(most, (SPREAD * min(rate, 1 - rate)) ** 2)
        return self.members**2 * most * self.weights.concentration

    def interval(self, level: float) -> Interval | None:
        """Interval by Student's t on the logit, within the bounds of the share of classes with errors; None below 5
        classes with pairs. A rate of 0 (or 1) has a bound on one side."""
        from scipy.special import expit, logit, stdtrit

        if self.classes < MIN_CLASSES:
            return None
        rate, units = self.value, self.effective / self.members
        outcomes = self.errors[self.present], (self.pairs - self.errors)[self.present]
        high, low = (largest_share(float(self.weights.shares[part > 0].sum()), units, level) for part in outcomes)
        low = 1 - low
        if 0 < rate < 1:
            variance = _widened(self.moves, self.unseen(rate), self.effective)
            # at most as many degrees of freedom as there are effective classes with errors, and with right decisions
            freedom = min(
                self.weights.freedom, *(float(part.sum()) ** 2 / float((part**2.0).sum()) for part in outcomes)
            )
            half = stdtrit(freedom, (1 + level) / 2) * np.sqrt(variance) / (rate * (1 - rate))
            low, high = max(low, float(expit(logit(rate) - half))), min(high, float(expit(logit(rate) + half)))
        return Interval(rate, low, high, level)


def differ(match: PairRate, miss: PairRate, level: float) -> bool:
    """Whether two rates of the same classes differ significantly: Student's t over classes.

    match: rates of negative pairs; miss: rates of positive pairs. Unseen classes vary as if both rates were equal.
    """
    from scipy.special import stdtrit

    rate = (match.value + miss.value) / 2
    unseen = match.unseen(rate) + miss.unseen(rate)
    variance = _widened(match.moves - miss.moves, unseen, min(match.effective, miss.effective))
    freedom = min(match.weights.freedom, miss.weights.freedom)
    return bool(abs(match.value - miss.value) > stdtrit(freedom, (1 + level) / 2) * np.sqrt(variance))


def _widened(moves: Floats, unseen: float, effective: float) -> float:
    """Variance over `effective` drawn classes and UNSEEN further classes."""
    return ((effective - 1) * float(moves @ moves) + UNSEEN * unseen) / (effective - 1 + UNSEEN)
