"""Result of an evaluation: scores, values per query and per class, and intervals over other classes of the same kind.

Queries of one class are correlated, and a query's neighbours are other queries. Queries are therefore not independent,
and an interval over them would be too narrow. Intervals are computed over classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from levelfield.errors import BadInput, BadSpecification, unknown
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.search.dense import Neighbours
from levelfield.evaluation.search.memory import Division
from levelfield.evaluation.signature import Signature
from levelfield.evaluation.statistics import Interval, crossed, figure_intervals
from levelfield.evaluation.statistics.intervals import check_level, paired_interval
from levelfield.notebook import frame
from levelfield.table import Table, numbers

Average = Literal["query", "class"]
Lone = Literal["exclude", "miss"]
AVERAGES: tuple[Average, ...] = get_args(Average)
LONE: tuple[Lone, ...] = get_args(Lone)
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
        return self.values_by_name[self._known(name)]

    def __contains__(self, name: object) -> bool:
        return name in self.values_by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    @property
    def n_queries(self) -> int:
        """Number of queries, including those without positives."""
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
        if self._known(name) not in self.per_query:
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
            low, high = self._ends(name)
            rows.append([name, f"{value:.4f}", *([f"{low:.4f}-{high:.4f}" if low == low else ""] if levels else [])])
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
            means = {name: one.means for name, one in per_class.items()}
            return frame({"class": first.classes, "queries": first.queries, **means}, index="class")
        columns: dict[str, list[Any]] = {"metric": list(self), "value": list(self.values())}
        if self.intervals:
            ends = zip(*(self._ends(name) for name in self), strict=True)
            columns["low over classes"], columns["high over classes"] = map(list, ends)
        return frame(columns, index="metric")

    def _ends(self, name: str) -> tuple[float, float]:
        interval = self.intervals.get(name)
        return (math.nan, math.nan) if interval is None else (interval.low, interval.high)

    @property
    def _about(self) -> str:
        lone = f", {self.n_lone:,} of them without another image of their class" if self.n_lone else ""
        return f"{self.n_queries:,} queries of {len(np.unique(self.query_codes)):,} classes{lone}"

    def signature(self, name: str) -> Signature:
        """Definition of the score."""
        return self.signatures[self._known(name)]

    def _known(self, name: str) -> str:
        if name not in self.values_by_name:
            raise unknown("metric of this evaluation", name, self.values_by_name)
        return name


def mean_of(values: Array, codes: Array, counted: Array, *, average: str) -> float:
    """Mean over the counted queries or over their class means; NaN if there are none. Independent of input order."""
    if not counted.any():
        return math.nan
    parts = values[counted] if average == "query" else class_means(values, codes, counted)[1]
    return math.fsum(parts) / len(parts)


def class_means(values: Array, codes: Array, counted: Array) -> tuple[Array, Array, Array]:
    """(codes, means, counts) of the classes with counted queries. Summed in order of size: independent of input order.

    >>> class_means(np.array([1.0, 0.0, 1.0]), np.array([4, 4, 2]), np.array([True, True, True]))
    (array([2, 4]), array([1. , 0.5]), array([1, 2]))
    """
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

    >>> values, codes = np.array([1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0]), np.repeat(np.arange(5), 2)
    >>> recall = class_intervals({"recall@1": values}, codes, np.ones(10, dtype=bool))["recall@1"]
    >>> round(recall.low, 3), recall.mean, round(recall.high, 3)
    (0.275, 0.8, 0.977)
    """
    result = {
        name: Interval(mean_of(values, codes, counted, average=average), math.nan, math.nan, level)
        for name, values in per_query.items()
    }
    if not per_query or not counted.any():
        return result
    queries = class_means(next(iter(per_query.values())), codes, counted)[2]
    means = {name: class_means(values, codes, counted)[1] for name, values in per_query.items()}
    table = crossed.Table.of(means, queries if average == "query" else np.ones(len(queries)), fixed=list(means))
    known = zip(result, figure_intervals(table, level=level), strict=True)
    return result | {name: interval for name, interval in known if interval is not None}


def paired_differences(first: Evaluation, second: Evaluation, *, level: float = 0.95) -> dict[str, Interval]:
    """First minus second for every retrieval metric of both, with its interval over classes: Student's t over the
    differences of each class, since both were searched with the same queries. Both ends are NaN below 5 classes, and if
    the difference is the same in every class.

    >>> from levelfield.evaluation import evaluate
    >>> rows, labels = np.random.default_rng(0).normal(size=(40, 10)), np.repeat(np.arange(10), 4)
    >>> rows += 2 * np.eye(10)[labels]
    >>> whole, half = (evaluate(rows, labels, metrics=["map@r"], dim=dim) for dim in (10, 5))
    >>> lost = paired_differences(half, whole)["map@r"]
    >>> round(lost.low, 3), round(lost.mean, 3), round(lost.high, 3)
    (-0.223, -0.04, 0.143)
    """
    check_level(level)
    names, others = (one.classes[one.query_codes] for one in (first, second))
    if not np.array_equal(names, others) or not np.array_equal(first.counted, second.counted):
        raise BadInput("The two evaluations have different queries: a paired difference needs the same ones.")
    result = {}
    for name in first.per_query:
        if name not in second.per_query:
            continue
        average = first.signature(name).definition.average
        if second.signature(name).definition.average != average:
            raise BadInput(f"The two evaluations average '{name}' over queries and over classes: use one of them.")
        result[name] = Interval(first[name] - second[name], math.nan, math.nan, level)
        one, other = first.per_class(name), second.per_class(name)
        if len(one.means):
            weights = one.queries if average == "query" else np.ones(len(one.means))
            result[name] = paired_interval(result[name].mean, one.means, other.means, weights, level=level)
    return result
