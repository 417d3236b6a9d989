"""Result of an evaluation: scores, values per query and per class, and intervals over classes.

An interval over queries would be too narrow: queries of one class are correlated, and their neighbours are queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from levelfield.errors import BadInput, BadSpecification, unknown
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.search.dense import Neighbours
from levelfield.evaluation.search.ranking import Division
from levelfield.evaluation.signature import Signature
from levelfield.evaluation.statistics import crossed
from levelfield.evaluation.statistics.intervals import (
    NO_ENDS,
    Interval,
    check_level,
    ends,
    figure_intervals,
    paired_interval,
)
from levelfield.table import Table, frame, numbers

Average = Literal["query", "class"]
Lone = Literal["exclude", "miss"]
TABLES = ("metrics", "queries", "classes")


@dataclass(frozen=True)
class Sample:
    """The sampled queries: their rows, and the number of all queries. intervals: of the scores of all queries."""

    rows: Array = field(repr=False)
    of: int
    seed: int
    intervals: dict[str, Interval] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{len(self.rows)}of{self.of}-seed{self.seed}"


@dataclass(frozen=True)
class ClassMeans:
    """Mean of a metric over the counted queries of each class, and the number of those queries."""

    classes: Array
    means: Array
    queries: Array


@dataclass(frozen=True)
class Evaluation(Mapping[str, float]):
    """Scores by name (fractions, not per cent). The score of a clustering metric is the mean over its starts.

    `per_query[name]` has one value per query in input order; a query without positives (`lone`) has the value 0 and
    must be dropped before averaging with `lone="exclude"`. `per_start[name]` has one value per k-means start.
    `intervals[name]` has the interval over classes of every retrieval metric if `ci` was set. Its ends are NaN below 5
    classes, and if all classes have the same score, unless that is 0 or 1. `sample`: which random queries were measured
    (None: all). `divided`: how the search was divided to keep the memory limit (None: all rows were in memory).
    """

    values_by_name: dict[str, float]
    per_query: dict[str, Array]
    per_start: dict[str, tuple[float, ...]]
    lone: Array
    counted: Array = field(repr=False)
    query_codes: Array = field(repr=False)
    classes: Array = field(repr=False)
    signatures: dict[str, Signature] = field(repr=False)
    intervals: dict[str, Interval] = field(default_factory=dict, repr=False)
    search: Callable[[int], Neighbours] | None = field(default=None, repr=False, compare=False)
    sample: Sample | None = field(default=None, repr=False)
    divided: Division | None = field(default=None, repr=False)

    def __getitem__(self, name: str) -> float:
        return self.values_by_name[self._checked(name)]

    def __contains__(self, name: object) -> bool:
        return name in self.values_by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    @property
    def n_queries(self) -> int:
        """Number of queries, including lone ones."""
        return len(self.lone)

    @property
    def n_lone(self) -> int:
        """Number of queries without a positive in the gallery."""
        return int(self.lone.sum())

    @property
    def spread(self) -> dict[str, float]:
        """Standard deviation over the starts of each clustering metric (0 for one start)."""
        return {
            name: float(np.std(values, ddof=1)) if len(values) > 1 else 0.0 for name, values in self.per_start.items()
        }

    def per_class(self, name: str) -> ClassMeans:
        """Class means of a per-query metric, used to compare methods."""
        if self._checked(name) not in self.per_query:
            raise BadSpecification(f"Metric '{name}' is computed over the whole set and has no value per class.")
        codes, means, queries = class_means(self.per_query[name], self.query_codes, self.counted)
        return ClassMeans(self.classes[codes], means, queries)

    def neighbours(self, k: int) -> Neighbours:
        """Compute the k nearest gallery rows of each query: `positions` and `similarities`, both `[queries, k]`.

        The query itself is excluded by id. The evaluated embeddings must be unchanged.
        """
        if self.search is None:
            raise BadSpecification("This evaluation has no embeddings: use the result that `evaluate` returned.")
        return self.search(k)

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {value:.4f}" for name, value in self.values_by_name.items())
        return f"Evaluation({figures}; {self._about})"

    def _repr_html_(self) -> str:
        levels = {interval.level for interval in self.intervals.values()}
        head = ["value", *(f"{level:.0%} interval over classes" for level in levels)]
        rows = []
        for name, value in self.items():
            low, high = ends(self.intervals.get(name))
            interval = "" if math.isnan(low) else f"{low:.4f}-{high:.4f}"
            rows.append([name, f"{value:.4f}", *([interval] if levels else [])])
        return Table(["metric", *numbers(*head)], rows, "Evaluation", [self._about]).html()

    def to_pandas(self, of: str = "metrics") -> Any:
        """DataFrame of the `metrics` with their intervals, of the `queries` in input order, or of the `classes`.

        A query without positives has the value 0; `counted` tells whether it is included in the average.
        """
        if of not in TABLES:
            raise unknown("table of an evaluation", of, TABLES)
        if of == "queries":
            labels = {"label": self.classes[self.query_codes], "counted": self.counted}
            return frame({**labels, **self.per_query})
        if of == "classes":
            per_class = {name: self.per_class(name) for name in self.per_query}
            first = next(iter(per_class.values()), ClassMeans(*(np.zeros(0),) * 3))
            means = {name: means.means for name, means in per_class.items()}
            return frame({"class": first.classes, "queries": first.queries, **means}, index="class")
        columns: dict[str, list[Any]] = {"metric": list(self), "value": list(self.values())}
        if self.intervals:
            both_ends = zip(*(ends(self.intervals.get(name)) for name in self), strict=True)
            columns["low over classes"], columns["high over classes"] = map(list, both_ends)
        return frame(columns, index="metric")

    @property
    def _about(self) -> str:
        lone = f", {self.n_lone:,} of them without another image of their class" if self.n_lone else ""
        return f"{self.n_queries:,} queries of {len(np.unique(self.query_codes)):,} classes{lone}"

    def signature(self, name: str) -> Signature:
        """Definition of the score."""
        return self.signatures[self._checked(name)]

    def _checked(self, name: str) -> str:
        if name not in self.values_by_name:
            raise unknown("metric of this evaluation", name, self.values_by_name)
        return name


def mean_of(values: Array, codes: Array, counted: Array, *, average: str) -> float:
    """Mean over the counted queries or over their class means; NaN if there are none."""
    if not counted.any():
        return math.nan
    parts = values[counted] if average == "query" else class_means(values, codes, counted)[1]
    return math.fsum(parts) / len(parts)


def class_means(values: Array, codes: Array, counted: Array) -> tuple[Array, Array, Array]:
    """(codes, means, counts) of the classes with counted queries. Sums do not depend on the input order."""
    values, codes = values[counted], codes[counted]
    order = np.lexsort((values, codes))
    present, starts, counts = np.unique(codes[order], return_index=True, return_counts=True)
    sums = np.add.reduceat(values[order], starts) if len(values) else np.zeros(0)
    return present, sums / counts, counts


def class_intervals(
    per_query: Mapping[str, Array], codes: Array, counted: Array, *, average: str = "query", level: float = 0.95
) -> dict[str, Interval]:
    """Intervals of the mean of each metric over the counted queries (or over their class means): Student's t over
    classes on the logit. Both ends are NaN below 5 classes.
    """
    if not per_query or not counted.any():
        return {name: Interval(math.nan, *NO_ENDS, level) for name in per_query}
    queries = class_means(next(iter(per_query.values())), codes, counted)[2]
    means = {name: class_means(values, codes, counted)[1] for name, values in per_query.items()}
    table = crossed.ScoreMoments.of(means, queries if average == "query" else np.ones(len(queries)), fixed=list(means))
    result = {}
    for (name, values), interval in zip(per_query.items(), figure_intervals(table, level=level), strict=True):
        result[name] = interval or Interval(mean_of(values, codes, counted, average=average), *NO_ENDS, level)
    return result


def paired_differences(first: Evaluation, second: Evaluation, *, level: float = 0.95) -> dict[str, Interval]:
    """First minus second for every retrieval metric of both, with its interval over classes: Student's t over the
    differences of each class. Both ends are NaN below 5 classes, and if the difference is the same in every class.

    >>> from levelfield.evaluation import evaluate
    >>> rows, labels = np.eye(10).repeat(4, axis=0), np.repeat(np.arange(10), 4)
    >>> whole, half = (evaluate(rows, labels, metrics=["map@r"], dim=dim) for dim in (10, 5))
    >>> paired_differences(half, whole)["map@r"].mean < 0
    True
    """
    check_level(level)
    labels, other_labels = (result.classes[result.query_codes] for result in (first, second))
    if not np.array_equal(labels, other_labels) or not np.array_equal(first.counted, second.counted):
        raise BadInput("The two evaluations have different queries: a paired difference needs the same ones.")
    differences = {}
    for name in (name for name in first.per_query if name in second.per_query):
        average, other_average = (result.signature(name).definition.average for result in (first, second))
        if average != other_average:
            raise BadInput(f"The two evaluations average '{name}' over queries and over classes: use one of them.")
        difference, means, others = first[name] - second[name], first.per_class(name), second.per_class(name)
        weights = means.queries if average == "query" else np.ones(len(means.queries))
        differences[name] = Interval(difference, *NO_ENDS, level)
        if len(weights):
            differences[name] = paired_interval(difference, means.means, others.means, weights, level=level)
    return differences
