"""Error rates of pair decisions at each similarity threshold, with intervals over classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from levelfield.errors import BadSpecification, unknown
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.metrics.pair_histogram import Counts, PairSet
from levelfield.evaluation.statistics import MIN_CLASSES, PairRate, differ

RULES = ("equal_error", "balanced", "false_match")
_STEPS = 16  # edges on each side of the threshold to test for the interval of the threshold
_REACH = 40.0  # with C classes, the edges cover error odds up to 1 + 40 / sqrt(C) times larger and smaller


@dataclass(frozen=True)
class Rate:
    """Share of wrong pair decisions, with its interval over classes. NaN: no interval requested, or fewer than 5
    classes have such pairs."""

    value: float
    low: float
    high: float
    errors: int
    pairs: int


@dataclass(frozen=True)
class Rates:
    """`false_match`: share of the negative pairs called the same; `false_non_match`: share of the positive pairs called
    different."""

    false_match: Rate
    false_non_match: Rate
    images: int
    classes: int


@dataclass(frozen=True)
class Rule:
    """Rule for choosing a threshold: `equal_error`, `balanced`, or `false_match` with the allowed rate."""

    name: str
    limit: float = math.nan

    @classmethod
    def of(cls, rule: str | Mapping[str, float]) -> Rule:
        """The rule as text.

        >>> str(Rule.of({"false_match": 0.01}))
        'false_match<=0.01'
        """
        choice = {rule: math.nan} if isinstance(rule, str) else dict(rule)
        if len(choice) != 1 or not set(choice) <= set(RULES):
            raise unknown("rule for a threshold", ", ".join(map(str, choice)), RULES)
        [(name, limit)] = choice.items()
        if (name == "false_match") == math.isnan(limit):
            raise BadSpecification(f"rule={rule!r}: use 'equal_error', 'balanced' or {{'false_match': 0.01}}.")
        if limit <= 0 or limit >= 1:
            raise BadSpecification(f"The false-match rate is {limit}; it must be between 0 and 1, e.g. 0.01.")
        return cls(name, limit)

    def __str__(self) -> str:
        return self.name if math.isnan(self.limit) else f"{self.name}<={self.limit:g}"

    def best(self, match: Array, miss: Array) -> int:
        """First index that fulfils the rule best, given rates of false matches (falling) and misses."""
        if self.name == "equal_error":
            return int(np.abs(match - miss).argmin())
        return int((match + miss).argmin() if self.name == "balanced" else (match <= self.limit).argmax())

    def could_choose(self, edge: PairRates, chosen: PairRates, level: float) -> bool:
        """Whether other classes of the same kind could choose this edge."""
        if self.name == "equal_error":
            return not differ(*edge, level)
        if self.name == "balanced":  # compare the rates of both kinds of pairs between the two edges
            return not differ(_between(edge[0], chosen[0]), _between(edge[1], chosen[1]), level)
        interval = edge[0].interval(level)
        return interval is not None and interval.low <= self.limit <= interval.high


PairRates = tuple[PairRate, PairRate]  # false matches, false non-matches


class Curve:
    """False matches and misses (false non-matches) at every edge of the grid from index `first`; the last edge is above
    all pairs."""

    def __init__(self, pairs: PairSet, counts: Counts, first: int) -> None:
        self.pairs, self.first = pairs, first
        same, other = (
            np.append(np.cumsum(bins[first:][::-1])[::-1], 0) for bins in (counts.same_bins, counts.other_bins)
        )
        self.matches, self.misses = other, pairs.same_pairs - same
        self.match, self.miss = self.matches / pairs.other_pairs, self.misses / pairs.same_pairs

    def choose(self, rule: Rule) -> int:
        """Index of the edge that the rule chooses: the middle of the edges with equal decisions."""
        alike = self._alike(rule.best(self.match, self.miss))
        return self.first + int(alike[len(alike) // 2])

    def starts_at(self, chosen: int) -> bool:
        """Whether the first edge decides like the chosen one, so that a better edge may come before it."""
        return bool(self._alike(chosen - self.first)[0] == 0)

    def around(self, chosen: int) -> Array:
        """Indices of the edges to test with other classes: even steps of the odds of both errors."""
        reach = 1 + _REACH / math.sqrt(len(self.pairs.class_sizes))
        factors = reach ** np.linspace(-1, 1, 2 * _STEPS + 1)
        at = chosen - self.first
        by_match = np.searchsorted(-self.match, -_of_odds(factors, self.match[at], self.pairs.other_pairs))
        by_miss = np.searchsorted(self.miss, _of_odds(factors, self.miss[at], self.pairs.same_pairs))
        edges = np.minimum(np.concatenate([by_match, by_miss, [at]]), len(self.match) - 1)
        return self.first + np.unique(edges)

    def rates(self, chosen: int) -> Rates:
        """Rates at the chosen edge; without intervals, because these classes chose the edge."""
        at, none = chosen - self.first, (math.nan, math.nan)
        return _rates(self.pairs, int(self.matches[at]), int(self.misses[at]), none, none)

    def _alike(self, at: int) -> Array:
        return np.flatnonzero((self.matches == self.matches[at]) & (self.misses == self.misses[at]))


def _of_odds(factors: Array, rate: float, pairs: int) -> Array:
    """Rates whose odds are multiples of those of `rate`, which is moved away from 0 and 1 by one pair."""
    rate = min(max(rate, 1 / (pairs + 1)), pairs / (pairs + 1))
    odds = factors * rate / (1 - rate)
    result: Array = odds / (1 + odds)
    return result


class ByClass:
    """Errors of each class at some edges: gives intervals of the rates and of the chosen edge."""

    def __init__(self, pairs: PairSet, counts: Counts) -> None:
        self.pairs = pairs
        same, other = pairs.by_class()
        self.at = [
            (PairRate(matches, other, 2), PairRate(same - above, same, 1))
            for matches, above in zip(counts.other, counts.same, strict=True)
        ]

    def rates(self, ci: float | None) -> Rates:
        """Rates at one edge."""
        [(match, miss)] = self.at
        return _rates(
            self.pairs,
            int(match.errors.sum()) // 2,
            int(miss.errors.sum()),
            *((math.nan, math.nan) if ci is None else _ends(rate, ci) for rate in (match, miss)),
        )

    def interval(self, rule: Rule, edges: Array, chosen: int, ci: float) -> tuple[float, float]:
        """Interval from the last edge below to the first edge above that other classes could not choose, or to the end
        of the grid. NaN if fewer than 5 classes have pairs of both kinds."""
        if min(rate.classes for rate in self.at[chosen]) < MIN_CLASSES:
            return math.nan, math.nan
        possible = np.flatnonzero(
            [number == chosen or rule.could_choose(rates, self.at[chosen], ci) for number, rates in enumerate(self.at)]
        )
        grid = self.pairs.grid
        first, last = grid.edges(np.array([0, grid.bins]))
        low = edges[possible[0] - 1] if possible[0] else first
        high = edges[possible[-1] + 1] if possible[-1] + 1 < len(edges) else last
        return float(low), float(high)


def _between(one: PairRate, other: PairRate) -> PairRate:
    """Rate of pairs that two edges decide differently."""
    return PairRate(np.abs(one.errors - other.errors), one.pairs, one.members)


def _ends(rate: PairRate, level: float) -> tuple[float, float]:
    interval = rate.interval(level)
    return (math.nan, math.nan) if interval is None else (interval.low, interval.high)


def _rates(pairs: PairSet, matches: int, misses: int, match: tuple[float, float], miss: tuple[float, float]) -> Rates:
    return Rates(
        Rate(matches / pairs.other_pairs, *match, matches, pairs.other_pairs),
        Rate(misses / pairs.same_pairs, *miss, misses, pairs.same_pairs),
        len(pairs.rows),
        len(pairs.class_sizes),
    )
