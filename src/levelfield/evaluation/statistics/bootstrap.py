"""How sure a figure is: over other queries, which are drawn again and again, and over other classes.

Images of one class rise and fall together. Drawing single queries therefore answers "other photos of these very
classes?". "Other classes of this kind?" gets the wider interval, and the honest one for classes that nobody has seen:
Student's t on the logit (`statistics.figure_intervals`), since the percentiles of drawn classes cover the truth too
seldom with few classes (86 to 90 % with 10).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from levelfield.errors import BadSpecification
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.result import Intervals, class_means
from levelfield.evaluation.statistics import Table, figure_intervals
from levelfield.randomness import numpy_stream

DRAWS = 2000
_CHUNK_ENTRIES = 2**20  # counts held at once: 8 MB as float64
_UNKNOWN = (math.nan, math.nan)


def intervals(
    per_query: Mapping[str, Array],
    codes: Array,
    counted: Array,
    *,
    average: str = "query",
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, Intervals]:
    """Intervals of the mean of each metric over the counted queries (or over their classes' means): percentiles of
    drawn queries, and Student's t over classes (from 5 classes on).

    All metrics see the same draws, and each is sorted first: neither the order of queries nor the other metrics asked
    for can move an interval by more than the last bit. Memory: 8 MB and one sorted copy of the values.

    >>> values, codes = {"recall@1": np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])}, np.array([0, 0, 0, 1, 1, 1])
    >>> found = intervals(values, codes, np.ones(6, dtype=bool))["recall@1"]
    >>> found.classes  # two classes, one perfect and one hopeless: nothing is known of others
    (nan, nan)
    >>> [round(bound, 3) for bound in found.queries]
    [0.167, 0.833]
    """
    check_level(level)
    if not per_query:
        return {}
    queries, classes = codes[counted], class_means(next(iter(per_query.values())), codes, counted)[2]
    by_query = [_UNKNOWN] * len(per_query)
    by_class = list(by_query)
    if len(queries) > 1:
        samples = _over_queries(list(per_query.values()), codes, counted, average, draws, seed).T
        by_query = [_UNKNOWN if np.ptp(sample) == 0 else bounds(sample, level) for sample in samples]
    if len(classes) > 1:
        means = {name: class_means(values, codes, counted)[1] for name, values in per_query.items()}
        table = Table.of(means, classes if average == "query" else np.ones(len(classes)), fixed=list(means))
        by_class = [_UNKNOWN if one is None else (one.low, one.high) for one in figure_intervals(table, level=level)]
    return {
        name: Intervals(one, other, level, draws)
        for name, one, other in zip(per_query, by_query, by_class, strict=True)
    }


def resampled_counts(units: int, draws: int, seed: int) -> Iterator[Array]:
    """How often each unit is in each draw of as many units, float64 `[some draws, units]`, in chunks of bounded size.

    >>> [counts.sum(axis=1).tolist() for counts in resampled_counts(5, draws=2, seed=0)]
    [[5.0, 5.0]]
    """
    size = max(_CHUNK_ENTRIES // units, 1)
    random = numpy_stream(seed, "bootstrap", units)
    for start in range(0, draws, size):
        count = min(size, draws - start)
        chosen = random.integers(units, size=(count, units)) + np.arange(count)[:, None] * units
        yield np.bincount(chosen.ravel(), minlength=count * units).reshape(count, units).astype(np.float64)


def bounds(sample: Array, level: float) -> tuple[float, float]:
    """The middle `level` of a sample.

    >>> bounds(np.arange(101.0), 0.5)
    (25.0, 75.0)
    """
    low, high = np.quantile(sample, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def check_level(level: float) -> None:
    if not 0 < level < 1:
        raise BadSpecification(f"ci={level}: the level of an interval lies between 0 and 1, for example 0.95.")


def _over_queries(
    metrics: list[Array],
    codes: Array,
    counted: Array,
    average: str,
    draws: int,
    seed: int,
) -> Array:
    """The figure of each metric under each draw of queries, `[draws, metrics]`."""
    codes = codes[counted]
    by_class = average == "class"
    groups = codes if by_class else np.zeros_like(codes)
    columns = np.stack([values[counted][np.lexsort((values[counted], groups))] for values in metrics], axis=1)
    sizes = np.unique(codes, return_counts=True)[1]
    starts = np.cumsum(sizes) - sizes
    parts = []
    for counts in resampled_counts(len(codes), draws, seed):
        total = len(codes)
        if by_class:  # a class that was not drawn has no mean and is left out
            drawn = np.add.reduceat(counts, starts, axis=1)
            total = (drawn > 0).sum(axis=1, keepdims=True)
            counts /= np.repeat(np.maximum(drawn, 1), sizes, axis=1)
        parts.append(counts @ columns / total)
    return np.concatenate(parts)
