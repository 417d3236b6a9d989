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
from levelfield.evaluation.search.distances import distance_called, paired_similarities, unit_rows
from levelfield.evaluation.statistics.crossed import MIN_CLASSES
from levelfield.evaluation.statistics.intervals import NO_ENDS, check_level, ends
from levelfield.evaluation.statistics.pair_rates import PairRate, differ
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

    @classmethod
    def of(cls, pairs: PairSet, matches: int, misses: int, *intervals: tuple[float, float]) -> Rates:
        """The rates of these errors; intervals: of both rates."""
        match, miss = intervals or (NO_ENDS, NO_ENDS)
        return cls(
            Rate(matches / pairs.other_pairs, *match, matches, pairs.other_pairs),
            Rate(misses / pairs.same_pairs, *miss, misses, pairs.same_pairs),
            len(pairs.rows),
            len(pairs.class_sizes),
        )


@dataclass(frozen=True)
class Rule:
    """Rule for choosing a threshold: `equal_error`, `balanced`, or `false_match` with the allowed rate."""

    name: str
    limit: float = math.nan

    @classmethod
    def of(cls, rule: str | Mapping[str, float]) -> Rule:
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

    def could_choose(self, edge: PairRates, best: PairRates, level: float) -> bool:
        """Whether other classes of the same kind could choose this edge instead of the best one."""
        if self.name == "equal_error":
            return not differ(*edge, level)
        if self.name == "balanced":  # compare the rates of the pairs that both edges decide differently
            match, miss = (
                PairRate(np.abs(rate.errors - at_best.errors), rate.pairs, rate.members)
                for rate, at_best in zip(edge, best, strict=True)
            )
            return not differ(match, miss, level)
        interval = edge[0].interval(level)
        return interval is not None and interval.low <= self.limit <= interval.high


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
        return (
            f"same_or_not|rule:{self.rule}|dist:{self.distance}|dim:{self.dim}|images:{self.validation.images}"
            f"|classes:{self.validation.classes}|v:1"
        )

    def same(self, first: Any, second: Any) -> Array:
        """Whether row i of `first` and row i of `second` are of the same class; a single row is compared with all rows.

        >>> rows = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> same_or_not(rows, ["a", "a", "b", "b"], ci=None).same([[1.0, 0.2]], [[1.0, 0.1], [0.2, 1.0]])
        array([ True, False])
        """
        sides = []
        for rows, name in ((first, "first"), (second, "second")):
            checked = finite_rows(np.atleast_2d(as_array(rows, name)), name, None)
            self._check_columns(checked.shape[1], name)
            part = checked[:, : self.dim].astype(np.float64)
            sides.append(unit_rows(part) if self.distance == "cosine" else part)
        least = self.value if self.distance in ("cosine", "dot") else -self.value
        return np.asarray(paired_similarities(*sides, distance=self.distance) >= least)

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
        intervals = (ends(None if ci is None else rate.interval(ci)) for rate in (match, miss))
        return Rates.of(pairs, int(match.errors.sum()) // 2, int(miss.errors.sum()), *intervals)

    def unknowns(self, embeddings: Any, labels: Any, **options: Any) -> Unknowns:
        """How many images of a test set are matched although their class is not in the gallery: each is searched
        without its own class. The test classes must differ from the validation classes.

        options: `gallery`, `gallery_labels`, `ci` and `progress` of `levelfield.evaluation.unknowns`.
        """
        self._check_columns(np.shape(embeddings)[-1], "test embeddings")
        _refuse_common(self.classes, np.unique(class_names(labels, "test labels", len(embeddings), "test embeddings")))
        return unknowns(embeddings, labels, threshold=self.value, distance=self.distance, dim=self.dim, **options)


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
    parsed, distance = Rule.of(rule), distance_called(distance)
    check_level(ci)
    rows, codes, classes = _read(validation_embeddings, validation_labels, "validation", dim)
    pairs = pair_set(rows, codes, distance=distance, name="validation embeddings")
    # errors at every edge of the grid; the last edge is above all pairs
    same, other = (np.append(np.cumsum(bins[::-1])[::-1], 0) for bins in histogram(pairs, progress))
    errors = other, pairs.same_pairs - same
    match, miss = errors[0] / pairs.other_pairs, errors[1] / pairs.same_pairs
    best = parsed.best(match, miss)
    equal = np.flatnonzero((match == match[best]) & (miss == miss[best]))
    best = int(equal[len(equal) // 2])
    interval = NO_ENDS
    if ci is not None:
        low, high = sorted(
            _in_units(bound, distance, pairs.scale)
            for bound in _interval(pairs, parsed, match, miss, best, ci, progress)
        )
        interval = low, high
    edge = float(pairs.grid.edges(np.array(best)))
    return Threshold(
        _in_units(edge, distance, pairs.scale),
        interval,
        ci or math.nan,
        str(parsed),
        distance,
        rows.shape[1],
        Rates.of(pairs, int(errors[0][best]), int(errors[1][best])),
        np.shape(validation_embeddings)[1],
        edge * pairs.scale**2,
        classes,
    )


def _interval(
    pairs: PairSet, rule: Rule, match: Array, miss: Array, best: int, level: float, progress: Progress
) -> tuple[float, float]:
    """Interval of the best edge: from the last edge below to the first edge above that other classes could not choose,
    or to the end of the grid. NaN if fewer than 5 classes have pairs of both kinds.

    Edges are tested at even steps of the odds of both errors.
    """
    factors = (1 + _REACH / math.sqrt(len(pairs.class_sizes))) ** np.linspace(-1, 1, 2 * _STEPS + 1)
    by_match = np.searchsorted(-match, -_of_odds(factors, match[best], pairs.other_pairs))
    by_miss = np.searchsorted(miss, _of_odds(factors, miss[best], pairs.same_pairs))
    tested = np.unique(np.minimum(np.concatenate([by_match, by_miss, [best]]), len(match) - 1))
    edges = pairs.grid.edges(tested)
    rates, at = _errors_by_class(pairs, edges, progress), int(np.searchsorted(tested, best))
    if min(rate.classes for rate in rates[at]) < MIN_CLASSES:
        return NO_ENDS
    bounds = np.concatenate([pairs.grid.edges(np.array([0])), edges, pairs.grid.edges(np.array([pairs.grid.bins]))])
    possible = [k for k, rate in enumerate(rates) if k == at or rule.could_choose(rate, rates[at], level)]
    return float(bounds[possible[0]]), float(bounds[possible[-1] + 2])


def _of_odds(factors: Array, rate: float, pairs: int) -> Array:
    """Rates whose odds are multiples of those of `rate`, which is moved away from 0 and 1 by one pair."""
    rate = min(max(rate, 1 / (pairs + 1)), pairs / (pairs + 1))
    odds = factors * rate / (1 - rate)
    return np.asarray(odds / (1 + odds))


def _errors_by_class(pairs: PairSet, edges: Array, progress: Progress) -> list[PairRates]:
    """Both rates at each edge."""
    same, other = pairs.by_class
    counts = zip(*count_by_class(pairs, edges, progress), strict=True)
    return [(PairRate(matches, other, 2), PairRate(same - above, same, 1)) for above, matches in counts]


def _read(embeddings: Any, labels: Any, who: str, dim: int | None) -> tuple[Array, Array, Array]:
    """Validate a set; return (rows, codes, classes). Errors name the set."""
    rows = finite_rows(embeddings, f"{who} embeddings", dim)
    names = class_names(labels, f"{who} labels", len(rows), f"{who} embeddings")
    classes, codes = np.unique(names, return_inverse=True)
    return rows, codes, classes


def _in_units(similarity: float, distance: str, scale: float) -> float:
    """A similarity in the usual unit: cosine, inner product, distance or number of different bits.

    A similarity above that of equal rows becomes a negative distance, which no pair has.
    """
    if distance == "euclidean":
        length = math.sqrt(2 * abs(similarity)) * scale
        return -length if similarity > 0 else length
    return -2 * similarity if distance == "hamming" else similarity * scale**2


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
