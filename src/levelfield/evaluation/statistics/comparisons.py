"""Pairwise comparisons of methods: the crossed test of every pair, corrected for the number of pairs (Holm)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from levelfield.evaluation.statistics.crossed import Differences, Floats
from levelfield.evaluation.statistics.needed import Needed, needed

ALPHA = 0.05


@dataclass(frozen=True)
class Comparison:
    """Difference between `first` and `second`, and whether it is significant.

    low, high: 95 % interval of the difference, uncorrected. p: uncorrected; adjusted: after Holm's correction for all
    pairs. All are None if no test is possible: fewer than 5 classes, or the same difference in every class. retrained:
    whether the test covers retraining; if not, it applies only to these runs.
    family: number of tests that were corrected together.
    missing: for a tie, the factor that prevents a decision ("classes", "seeds", "both", "" if unknown), and the number
    that would give 80 % power if the true difference were the observed one.
    """

    first: str
    second: str
    difference: float
    low: float | None
    high: float | None
    t: float | None
    df: float | None
    p: float | None
    adjusted: float | None
    classes: int
    seeds: tuple[int, int]
    retrained: bool
    missing: str = ""
    needed_seeds: Needed | None = None
    needed_classes: Needed | None = None
    family: int = 1

    def better(self) -> bool:
        """Whether one method is better than the other at level ALPHA; otherwise the pair is a tie."""
        return self.adjusted is not None and self.adjusted < ALPHA

    @property
    def only_alone(self) -> str:
        """Why a tie has an interval without 0; empty for other pairs."""
        if self.p is None or self.p >= ALPHA or self.adjusted is None or self.better():
            return ""
        return f"significant alone, not after correction for {self.family} comparisons"

    def seen_from(self, label: str) -> Comparison:
        """The same comparison with `label` first."""
        if label == self.first:
            return self
        low, high, t = (None if value is None else -value for value in (self.high, self.low, self.t))
        turned = replace(self, difference=-self.difference, low=low, high=high, t=t)
        return replace(turned, first=self.second, second=self.first, seeds=self.seeds[::-1])

    @property
    def winner(self) -> str | None:
        """The better method; None for a tie."""
        return (self.first if self.difference > 0 else self.second) if self.better() else None


def joint(tables: Sequence[Differences], *, other_p_values: Sequence[float] = ()) -> list[Comparison]:
    """Compare the pairs of several tables (test sets), corrected together with the p-values of other tests."""
    of_tables = [p_values(table) for table in tables]
    family = np.concatenate([*of_tables, np.asarray(other_p_values, dtype=np.float64)])
    adjusted, factors = _holm(family)
    result: list[Comparison] = []
    for table, p in zip(tables, of_tables, strict=True):
        part = slice(len(result), len(result) + len(p))
        result += _comparisons(table, p, adjusted[part], factors[part])
    return [replace(comparison, family=len(family)) for comparison in result]


def holm(p_values: Sequence[float] | Floats) -> list[float]:
    """Adjusted p-values: rejecting all below alpha keeps the family-wise error rate below alpha.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    return list(_holm(np.asarray(p_values, dtype=np.float64))[0].tolist())


def _holm(p: Floats) -> tuple[Floats, Floats]:
    """Adjusted values and the factor of each."""
    order = np.argsort(p, kind="stable")
    factors, adjusted = np.empty_like(p), np.empty_like(p)
    factors[order] = np.arange(len(p), 0, -1)
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, (factors * p)[order])) if len(p) else p
    return adjusted, factors


def p_values(pairs: Differences) -> Floats:
    """Two-sided uncorrected p-value of every pair; 1 if no test is possible."""
    from scipy.special import stdtr

    return np.where(pairs.tested, 2 * stdtr(pairs.variance.freedom, -np.abs(pairs.difference / pairs.error)), 1.0)


def _comparisons(pairs: Differences, p: Floats, adjusted: Floats, factors: Floats) -> list[Comparison]:
    """The comparisons of a table. factors: by which Holm's correction multiplies each p-value."""
    from scipy.special import stdtrit

    error, freedom = pairs.error, pairs.variance.freedom
    half = stdtrit(freedom, 0.975) * error
    advice = needed(pairs, half, ALPHA / factors, ~pairs.tested | (adjusted >= ALPHA))
    low, high = pairs.difference - half, pairs.difference + half
    tests = np.stack([low, high, pairs.difference / error, freedom, p, adjusted], axis=1).tolist()
    result = []
    for number, (i, j) in enumerate(zip(pairs.first, pairs.second, strict=True)):
        test = tests[number] if pairs.tested[number] else [None] * 6
        missing, more_seeds, more_classes = advice[number]
        result.append(
            Comparison(
                pairs.labels[i],
                pairs.labels[j],
                float(pairs.difference[number]),
                **dict(zip(("low", "high", "t", "df", "p", "adjusted"), test, strict=True)),
                classes=pairs.classes,
                seeds=(int(pairs.seeds[i]), int(pairs.seeds[j])),
                retrained=bool(pairs.retrained[number]),
                missing=missing,
                needed_seeds=more_seeds,
                needed_classes=more_classes,
            )
        )
    return result
