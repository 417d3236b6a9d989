"""How often pairs are decided wrongly at each similarity, and when classes are drawn again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from levelfield.errors import BadSpecification, unknown
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.metrics.pair_histogram import Counts, PairSet
from levelfield.evaluation.statistics.bootstrap import bounds, resampled_counts

RULES = ("equal_error", "balanced", "false_match")
DRAWS = 2000
_STEPS = 16  # edges on each side of the threshold that drawn classes can choose
_REACH = 40.0  # with C classes these cover odds of an error that are 1 + 40 / sqrt(C) times as large, and as small


@dataclass(frozen=True)
class Rate:
    """A share of pairs that were decided wrongly, with its interval over classes drawn again (NaN: none was asked)."""

    value: float
    low: float
    high: float
    errors: int
    pairs: int


@dataclass(frozen=True)
class Rates:
    """`false_match`: of the pairs of different classes, those called the same; `false_non_match`: of the pairs of one
    class, those called different."""

    false_match: Rate
    false_non_match: Rate
    images: int
    classes: int


@dataclass(frozen=True)
class Rule:
    """What a threshold has to achieve: `equal_error`, `balanced`, or `false_match` with the rate allowed."""

    name: str
    limit: float = math.nan

    @classmethod
    def of(cls, asked: str | Mapping[str, float]) -> Rule:
        """The rule as it is written.

        >>> str(Rule.of({"false_match": 0.01}))
        'false_match<=0.01'
        """
        given = {asked: math.nan} if isinstance(asked, str) else dict(asked)
        if len(given) != 1 or not set(given) <= set(RULES):
            raise unknown("rule for a threshold", ", ".join(map(str, given)), RULES)
        [(name, limit)] = given.items()
        if (name == "false_match") == math.isnan(limit):
            raise BadSpecification(f"rule={asked!r}: write 'equal_error', 'balanced' or {{'false_match': 0.01}}.")
        if limit <= 0 or limit >= 1:
            raise BadSpecification(f"A false-match rate of {limit} was asked for: it lies between 0 and 1, as in 0.01.")
        return cls(name, limit)

    def __str__(self) -> str:
        return self.name if math.isnan(self.limit) else f"{self.name}<={self.limit:g}"

    def best(self, match: Array, miss: Array) -> int:
        """The first place where the rule is fulfilled best, along rates of false matches (falling) and misses."""
        if self.name == "equal_error":
            return int(np.abs(match - miss).argmin())
        return int((match + miss).argmin() if self.name == "balanced" else (match <= self.limit).argmax())

    def drawn(self, match: Array, miss: Array, edges: Array) -> Array:
        """What the rule chooses in each draw, from rates `[edges, draws]`: between two edges on a straight line."""
        if self.name == "balanced":
            result: Array = edges[(match + miss).argmin(axis=0)]
            return result
        return _crossing(match - (miss if self.name == "equal_error" else self.limit), edges)


class Curve:
    """False matches and misses (false non-matches) at every edge of the grid from number `first` on; the last edge is
    above all pairs."""

    def __init__(self, pairs: PairSet, counts: Counts, first: int) -> None:
        self.pairs, self.first = pairs, first
        same, other = (
            np.append(np.cumsum(bins[first:][::-1])[::-1], 0) for bins in (counts.same_bins, counts.other_bins)
        )
        self.matches, self.misses = other, pairs.same_pairs - same
        self.match, self.miss = self.matches / pairs.other_pairs, self.misses / pairs.same_pairs

    def choose(self, rule: Rule) -> int:
        """The number of the rule's edge: the middle one of those that decide alike."""
        alike = self._alike(rule.best(self.match, self.miss))
        return self.first + int(alike[len(alike) // 2])

    def starts_at(self, chosen: int) -> bool:
        """Whether the first edge decides as the chosen one: then a better one may lie before it."""
        return bool(self._alike(chosen - self.first)[0] == 0)

    def around(self, chosen: int) -> Array:
        """Numbers of edges at which drawn classes are judged: even steps of the odds of both errors."""
        reach = 1 + _REACH / math.sqrt(len(self.pairs.class_sizes))
        factors = reach ** np.linspace(-1, 1, 2 * _STEPS + 1)
        at = chosen - self.first
        by_match = np.searchsorted(-self.match, -_of_odds(factors, self.match[at], self.pairs.other_pairs))
        by_miss = np.searchsorted(self.miss, _of_odds(factors, self.miss[at], self.pairs.same_pairs))
        found = np.minimum(np.concatenate([by_match, by_miss, [at]]), len(self.match) - 1)
        return self.first + np.unique(found)

    def rates(self, chosen: int) -> Rates:
        """Of the chosen edge; without intervals, for these classes chose it."""
        at, none = chosen - self.first, (math.nan, math.nan)
        return _rates(self.pairs, int(self.matches[at]), int(self.misses[at]), none, none)

    def _alike(self, at: int) -> Array:
        return np.flatnonzero((self.matches == self.matches[at]) & (self.misses == self.misses[at]))


def _of_odds(factors: Array, rate: float, pairs: int) -> Array:
    """Rates whose odds are so many times those of `rate`, which is moved away from 0 and 1 by one pair."""
    rate = min(max(rate, 1 / (pairs + 1)), pairs / (pairs + 1))
    odds = factors * rate / (1 - rate)
    result: Array = odds / (1 + odds)
    return result


class Drawn:
    """Counts by group of classes at some edges, and both rates when the groups are drawn again.

    Pairs of two copies of one group are no pairs of that world and are left out.
    """

    def __init__(self, pairs: PairSet, counts: Counts) -> None:
        self.pairs = pairs
        self.all_same, self.all_other = pairs.by_group()
        self.matches, self.misses = counts.other, self.all_same - counts.same

    def rates(self, ci: float | None, seed: int) -> Rates:
        """At the one edge."""
        match = miss = (math.nan, math.nan)
        matches, misses = int(self.matches.sum()), int(self.misses.sum())
        if ci is not None:
            drawn_match, drawn_miss = self.samples(seed)
            classes = self.pairs.class_sizes
            match = _interval(drawn_match[0], ci, matches, self.pairs.other_pairs, len(classes) // 2)
            miss = _interval(drawn_miss[0], ci, misses, self.pairs.same_pairs, int((classes > 1).sum()))
        return _rates(self.pairs, matches, misses, match, miss)

    def interval(self, rule: Rule, edges: Array, ci: float, seed: int) -> tuple[float, float]:
        """Of the similarity that the rule chooses when classes are drawn again."""
        return bounds(rule.drawn(*self.samples(seed), edges), ci)

    def samples(self, seed: int) -> tuple[Array, Array]:
        """Both rates `[edges, draws]`; draws without a pair of one kind are left out."""
        counts = np.concatenate(list(resampled_counts(len(self.all_same), DRAWS, seed)))
        all_other, all_same = _quadratic(self.all_other, counts), counts @ self.all_same
        usable = (all_other > 0) & (all_same > 0)
        match = [_quadratic(table, counts)[usable] / all_other[usable] for table in self.matches]
        miss = [(counts @ row)[usable] / all_same[usable] for row in self.misses]
        return np.array(match), np.array(miss)


def _quadratic(table: Array, counts: Array) -> Array:
    """Sum over g < h of counts_g counts_h table_gh, and over g of counts_g table_gg, for each draw."""
    apart = np.triu(table, k=1).astype(np.float64)
    result: Array = ((counts @ apart) * counts).sum(axis=1) + counts @ np.diagonal(table)
    return result


def _interval(sample: Array, level: float, errors: int, pairs: int, units: int) -> tuple[float, float]:
    """Percentiles of the drawn rates. Drawing again never finds what was not seen: without a single error (or success)
    the open end is what `units` independent trials without one allow."""
    if units < 2:
        return (math.nan, math.nan)
    low, high = bounds(sample, level)
    unseen = 1 - ((1 - level) / 2) ** (1 / units)
    return (1 - unseen if errors == pairs else low), (unseen if errors == 0 else high)


def _rates(
    pairs: PairSet,
    matches: int,
    misses: int,
    match: tuple[float, float],
    miss: tuple[float, float],
) -> Rates:
    return Rates(
        Rate(matches / pairs.other_pairs, *match, matches, pairs.other_pairs),
        Rate(misses / pairs.same_pairs, *miss, misses, pairs.same_pairs),
        len(pairs.rows),
        len(pairs.class_sizes),
    )


def _crossing(excess: Array, edges: Array) -> Array:
    """Where each column, which falls along the edges, reaches 0: on a straight line between two of them, or in the
    middle of those where it is 0."""
    draws = np.arange(excess.shape[1])
    first, end = (excess > 0).sum(axis=0), (excess >= 0).sum(axis=0)
    left, right = np.maximum(first - 1, 0), np.minimum(first, len(edges) - 1)
    above, fall = excess[left, draws], excess[left, draws] - excess[right, draws]
    part = np.clip(above / np.where(fall > 0, fall, 1.0), 0, 1)
    between = edges[left] + part * (edges[right] - edges[left])
    result: Array = np.where(end > first, (edges[right] + edges[np.maximum(end - 1, 0)]) / 2, between)
    return result
