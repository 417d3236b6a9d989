"""Confidence intervals of scores over other classes of the same kind.

Queries of one class are correlated, and a query's neighbours are other queries. Queries are therefore not independent,
and an interval over them would be too narrow. Intervals are computed over classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from levelfield.errors import BadSpecification
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.result import class_means, mean_of
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


def check_level(level: float) -> None:
    if not 0 < level < 1:
        raise BadSpecification(f"ci={level}: the confidence level must be between 0 and 1, e.g. 0.95.")
