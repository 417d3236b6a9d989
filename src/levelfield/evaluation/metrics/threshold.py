"""Similarity threshold for "same class", and its error rates.

The threshold is chosen on validation classes and measured on test classes; error rates on the validation classes would
be too optimistic. Pairs share images and images share classes, so every interval is over classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levelfield.errors import BadInput, BadSpecification, unknown
from levelfield.evaluation.inputs import Array, Arrays, as_array, class_names, finite_rows
from levelfield.evaluation.metrics.pairs import PairSet, count_by_class, histogram, pair_set
from levelfield.evaluation.metrics.unknowns import Unknowns, unknowns
from levelfield.evaluation.search.distances import DISTANCES, unit_rows
from levelfield.evaluation.statistics import MIN_CLASSES, PairRate, differ
from levelfield.evaluation.statistics.intervals import check_level, ends
from levelfield.progress import SILENT, Progress

RULES = ("equal_error", "balanced", "false_match")
_STEPS = 16  # edges on each side of the threshold to test for the interval of the threshold
_REACH = 40.0  # with C classes, the edges cover error odds up to 1 + 40 / sqrt(C) times larger and smaller

PairRates = tuple[PairRate, PairRate]  # false matches, false non-matches


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


def _between(first: PairRate, second: PairRate) -> PairRate:
    """Rate of pairs that two edges decide differently."""
    return PairRate(np.abs(first.errors - second.errors), first.pairs, first.members)


@dataclass(frozen=True)
class Threshold:
    """Two images count as the same class if their cosine or inner product is at least `value`, or their distance or
    number of different bits at most `value`. `interval`: range over other validation classes of the same kind (NaN
    below 5 classes with two images or more)."""

    value: float
    interval: tuple[float, float]
    level: float
    rule: str
    distance: str
    dim: int
    validation: Rates
    columns: int = field(repr=False)  # of the embeddings, before truncation to `dim`
    similarity: float = field(repr=False)  # the threshold as a similarity (larger is nearer)
    classes: Array = field(repr=False)

    @property
    def signature(self) -> str:
        """Definition of the threshold."""
        chosen = self.validation
        return (
            f"same_or_not|rule:{self.rule}|dist:{self.distance}|dim:{self.dim}|images:{chosen.images}"
            f"|classes:{chosen.classes}|v:1"
        )

    def same(self, first: Any, second: Any) -> Array:
        """Whether row i of `first` and row i of `second` are of the same class; a single row is compared with all rows.

        >>> rows = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> same_or_not(rows, ["a", "a", "b", "b"], ci=None).same([[1.0, 0.2]], [[1.0, 0.1], [0.2, 1.0]])
        array([ True, False])
        """
        left, right = (self._rows(rows, name) for rows, name in ((first, "first"), (second, "second")))
        if self.distance == "cosine":
            left, right = unit_rows(left), unit_rows(right)
        if self.distance in ("cosine", "dot"):
            result: Array = (left * right).sum(axis=1) >= self.similarity
        elif self.distance == "hamming":
            result = ((left > 0) != (right > 0)).sum(axis=1) <= self.value
        else:
            result = -0.5 * np.square(left - right).sum(axis=1) >= self.similarity
        return result

    def _rows(self, rows: Any, name: str) -> Array:
        """Validated rows of one embedding or several, in float64."""
        checked = finite_rows(np.atleast_2d(as_array(rows, name)), name, None)
        self._check_columns(checked.shape[1], name)
        return checked[:, : self.dim].astype(np.float64)

    def _check_columns(self, columns: int, name: str) -> None:
        if columns != self.columns:
            raise BadInput(
                f"{name} has {columns} columns, but the threshold was chosen on embeddings with {self.columns}; "
                "both need the same number."
            )

    def rates(self, embeddings: Any, labels: Any, *, ci: float | None = 0.95, progress: Progress = SILENT) -> Rates:
        """Error rates on all pairs of a test set, whose classes must differ from the validation classes."""
        check_level(ci)
        self._check_columns(np.shape(embeddings)[-1], "test embeddings")
        rows, codes, classes = _read(embeddings, labels, "test", self.dim)
        _refuse_common(self.classes, classes)
        pairs = pair_set(rows, codes, distance=self.distance, name="test embeddings")
        [(match, miss)] = _errors_by_class(pairs, np.array([self.similarity / pairs.scale**2]), progress)
        errors = int(match.errors.sum()) // 2, int(miss.errors.sum())
        return _rates(pairs, *errors, *(ends(None if ci is None else rate.interval(ci)) for rate in (match, miss)))

    def unknowns(
        self,
        embeddings: Any,
        labels: Any,
        *,
        gallery: Any = None,
        gallery_labels: Any = None,
        ci: float | None = 0.95,
        progress: Progress = SILENT,
    ) -> Unknowns:
        """How many images of a test set are matched although their class is not in the gallery: each is searched
        without its own class. The test classes must differ from the validation classes. See `unknowns`."""
        self._check_columns(np.shape(embeddings)[-1], "test embeddings")
        _refuse_common(self.classes, np.unique(class_names(labels, "test labels", len(embeddings), "test embeddings")))
        return unknowns(
            embeddings,
            labels,
            threshold=self.value,
            gallery=gallery,
            gallery_labels=gallery_labels,
            distance=self.distance,
            dim=self.dim,
            ci=ci,
            progress=progress,
        )


def same_or_not(
    validation_embeddings: Arrays,
    validation_labels: Arrays,
    *,
    distance: str = "cosine",
    rule: str | Mapping[str, float] = "equal_error",
    dim: int | None = None,
    ci: float | None = 0.95,
    progress: Progress = SILENT,
) -> Threshold:
    """Choose a threshold for "same class" on all pairs of validation images: embeddings (n, dim), labels (n,).

    rule: `equal_error` (equal rates of false matches and false non-matches), `balanced` (smallest mean of both rates),
    or `{"false_match": 0.01}` (at most that rate of false matches, with the fewest false non-matches). If several
    thresholds make the same decisions, the middle one is chosen.

    The threshold is one of some 200,000 evenly spaced values (cosine: steps of 2^-17; Hamming: every number of bits),
    its rates are exact counts over all pairs. Costs half of the n x n product, and as much again for the interval.
    Memory: a sorted copy of the embeddings, about 100 MB for any n, and 1 KB per class.

    >>> rows = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    >>> threshold = same_or_not(rows, ["a", "a", "b", "b"], ci=None)
    >>> round(threshold.value, 2), threshold.validation.false_match.errors, threshold.validation.false_non_match.errors
    (0.61, 0, 0)
    """
    wanted = Rule.of(rule)
    check_level(ci)
    if distance not in DISTANCES:
        raise unknown("distance", distance, DISTANCES)
    rows, codes, classes = _read(validation_embeddings, validation_labels, "validation", dim)
    pairs = pair_set(rows, codes, distance=distance, name="validation embeddings")
    # errors at every edge of the grid; the last edge is above all pairs
    same, other = (np.append(np.cumsum(bins[::-1])[::-1], 0) for bins in histogram(pairs, progress))
    matches, misses = other, pairs.same_pairs - same
    best = wanted.best(matches / pairs.other_pairs, misses / pairs.same_pairs)
    alike = np.flatnonzero((matches == matches[best]) & (misses == misses[best]))
    chosen = int(alike[len(alike) // 2])
    edge, interval = float(pairs.grid.edges(np.array(chosen))), (math.nan, math.nan)
    if ci is not None:
        numbers = _edges_around(chosen, matches / pairs.other_pairs, misses / pairs.same_pairs, pairs)
        bounds = _interval(pairs, wanted, numbers, chosen, ci, progress)
        low, high = sorted(_in_units(bound, distance, pairs.scale) for bound in bounds)
        interval = low, high
    return Threshold(
        _in_units(edge, distance, pairs.scale),
        interval,
        ci or math.nan,
        str(wanted),
        distance,
        rows.shape[1],
        _rates(pairs, int(matches[chosen]), int(misses[chosen])),
        np.shape(validation_embeddings)[1],
        edge * pairs.scale**2,
        classes,
    )


def _edges_around(chosen: int, match: Array, miss: Array, pairs: PairSet) -> Array:
    """Indices of the edges to test with other classes: even steps of the odds of both errors."""
    factors = (1 + _REACH / math.sqrt(len(pairs.class_sizes))) ** np.linspace(-1, 1, 2 * _STEPS + 1)
    by_match = np.searchsorted(-match, -_of_odds(factors, match[chosen], pairs.other_pairs))
    by_miss = np.searchsorted(miss, _of_odds(factors, miss[chosen], pairs.same_pairs))
    return np.unique(np.minimum(np.concatenate([by_match, by_miss, [chosen]]), len(match) - 1))


def _of_odds(factors: Array, rate: float, pairs: int) -> Array:
    """Rates whose odds are multiples of those of `rate`, which is moved away from 0 and 1 by one pair."""
    rate = min(max(rate, 1 / (pairs + 1)), pairs / (pairs + 1))
    odds = factors * rate / (1 - rate)
    result: Array = odds / (1 + odds)
    return result


def _interval(
    pairs: PairSet, rule: Rule, numbers: Array, chosen: int, level: float, progress: Progress
) -> tuple[float, float]:
    """Interval from the last edge below to the first edge above that other classes could not choose, or to the end of
    the grid. NaN if fewer than 5 classes have pairs of both kinds."""
    edges = pairs.grid.edges(numbers)
    rates, at = _errors_by_class(pairs, edges, progress), int(np.searchsorted(numbers, chosen))
    if min(rate.classes for rate in rates[at]) < MIN_CLASSES:
        return math.nan, math.nan
    possible = [
        number
        for number, edge_rates in enumerate(rates)
        if number == at or rule.could_choose(edge_rates, rates[at], level)
    ]
    first, last = pairs.grid.edges(np.array([0, pairs.grid.bins]))
    low = edges[possible[0] - 1] if possible[0] else first
    high = edges[possible[-1] + 1] if possible[-1] + 1 < len(edges) else last
    return float(low), float(high)


def _errors_by_class(pairs: PairSet, edges: Array, progress: Progress) -> list[PairRates]:
    """Both rates at each edge."""
    same, other = pairs.by_class()
    counts = zip(*count_by_class(pairs, edges, progress), strict=True)
    return [(PairRate(matches, other, 2), PairRate(same - above, same, 1)) for above, matches in counts]


def _rates(
    pairs: PairSet,
    matches: int,
    misses: int,
    match_ends: tuple[float, float] = (math.nan, math.nan),
    miss_ends: tuple[float, float] = (math.nan, math.nan),
) -> Rates:
    return Rates(
        Rate(matches / pairs.other_pairs, *match_ends, matches, pairs.other_pairs),
        Rate(misses / pairs.same_pairs, *miss_ends, misses, pairs.same_pairs),
        len(pairs.rows),
        len(pairs.class_sizes),
    )


def _read(embeddings: Any, labels: Any, who: str, dim: int | None) -> tuple[Array, Array, Array]:
    """Validate a set; return (rows, codes, classes). Errors name the set."""
    rows = finite_rows(embeddings, f"{who} embeddings", dim)
    names = class_names(labels, f"{who} labels", len(rows), f"{who} embeddings")
    classes, codes = np.unique(names, return_inverse=True)
    return rows, codes, classes


def _in_units(similarity: float, distance: str, scale: float) -> float:
    """Convert a similarity to the usual unit: cosine, inner product, distance or number of different bits."""
    if distance == "euclidean":
        return math.sqrt(max(-2 * similarity, 0.0)) * scale
    if distance == "hamming":
        return -2 * similarity
    return similarity * scale**2


def _refuse_common(validation: Array, test: Array) -> None:
    if (validation.dtype.kind == "U") != (test.dtype.kind == "U"):
        raise BadInput("Validation and test labels must both be numbers or both be text.")
    common = np.intersect1d(validation, test)
    if len(common):
        shown = ", ".join(map(str, common[:3])) + (", ..." if len(common) > 3 else "")
        raise BadInput(
            f"{len(common)} of {len(test)} test classes were also used to choose the threshold ({shown}), so the "
            "error rates would be too optimistic. Use different labels for different classes."
        )
