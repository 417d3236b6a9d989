"""Confidence intervals of scores over other classes of the same kind.

Queries of one class are correlated, and a query's neighbours are other queries. Queries are therefore not independent,
and an interval over them would be too narrow. Intervals are computed over classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from levelfield.errors import BadInput, BadSpecification
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.result import Evaluation, class_means, mean_of
from levelfield.evaluation.statistics import Interval, Table, figure_intervals


def intervals(
    per_query: Mapping[str, Array],
    codes: Array,
    counted: Array,
    *,
    average: str = "query",
    level: float = 0.95,
) -> dict[str, Interval]:
    """Intervals of the mean of each metric over the counted queries (or over their class means): Student's t over
    classes on the logit. Both ends are NaN below 5 classes.

    >>> values, codes = np.array([1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0]), np.repeat(np.arange(5), 2)
    >>> found = intervals({"recall@1": values}, codes, np.ones(10, dtype=bool))["recall@1"]
    >>> round(found.low, 3), found.mean, round(found.high, 3)
    (0.275, 0.8, 0.977)
    """
    check_level(level)
    found = {
        name: Interval(mean_of(values, codes, counted, average=average), math.nan, math.nan, level)
        for name, values in per_query.items()
    }
    if not per_query or not counted.any():
        return found
    queries = class_means(next(iter(per_query.values())), codes, counted)[2]
    means = {name: class_means(values, codes, counted)[1] for name, values in per_query.items()}
    table = Table.of(means, queries if average == "query" else np.ones(len(queries)), fixed=list(means))
    known = zip(found, figure_intervals(table, level=level), strict=True)
    return found | {name: one for name, one in known if one is not None}


def paired_differences(first: Evaluation, second: Evaluation, *, level: float = 0.95) -> dict[str, Interval]:
    """First minus second for every retrieval metric of both, with its interval over classes: Student's t over the
    differences of each class, since both were searched with the same queries. Both ends are NaN below 5 classes, and if
    the difference is the same in every class.

    >>> from levelfield.evaluation import evaluate
    >>> rows, labels = np.random.default_rng(0).normal(size=(40, 10)), np.repeat(np.arange(10), 4)
    >>> rows += 2 * np.eye(10)[labels]
    >>> whole, half = (evaluate(rows, labels, metrics=["map@r"], dim=dim) for dim in (10, 5))
    >>> found = paired_differences(half, whole)["map@r"]
    >>> round(found.low, 3), round(found.mean, 3), round(found.high, 3)
    (-0.223, -0.04, 0.143)
    """
    check_level(level)
    ours, theirs = (one.classes[one.query_codes] for one in (first, second))
    if not np.array_equal(ours, theirs) or not np.array_equal(first.counted, second.counted):
        raise BadInput("The two evaluations have different queries: a paired difference needs the same ones.")
    found = {}
    for name in first.per_query:
        if name not in second.per_query:
            continue
        one, other = first.per_class(name), second.per_class(name)
        average = {each.signature(name).definition.average for each in (first, second)}
        if len(average) > 1:
            raise BadInput(f"The two evaluations average '{name}' over queries and over classes: use one of them.")
        found[name] = Interval(first[name] - second[name], math.nan, math.nan, level)
        if len(one.means):
            weights = one.queries if average == {"query"} else np.ones(len(one.means))
            found[name] = paired_interval(found[name].mean, one.means, other.means, weights, level=level)
    return found


def paired_interval(
    difference: float, first: npt.ArrayLike, second: npt.ArrayLike, queries: npt.ArrayLike, *, level: float = 0.95
) -> Interval:
    """The difference of two scores with Student's interval over the differences of each class; both ends are NaN if
    there is none. first, second: the two scores of each class, `[classes]` or `[seeds, classes]`."""
    from scipy.special import stdtrit

    found = Table.of({"first": first, "second": second}, queries, fixed=("first", "second")).differences()
    if not found.tested[0]:
        return Interval(difference, math.nan, math.nan, level)
    half = float(stdtrit(found.variance.freedom[0], (1 + level) / 2) * np.sqrt(found.variance.total[0]))
    return Interval(difference, difference - half, difference + half, level)


def check_level(level: float) -> None:
    if not 0 < level < 1:
        raise BadSpecification(f"ci={level}: the confidence level must be between 0 and 1, e.g. 0.95.")
