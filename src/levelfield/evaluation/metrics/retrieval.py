"""Retrieval metrics, one value per query, from tie groups in closed form (mean over all orders of tied rows)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial

import numpy as np

from levelfield.evaluation.inputs import Array
from levelfield.evaluation.metrics.registry import Metric, MetricFacts, register
from levelfield.evaluation.search.arrangement import EVERYWHERE, Counts, TieGroups, tie_groups


def _first_r(positives: Array, k: int | None) -> Array:
    """The last rank that a metric of the first R ranks reads."""
    return positives


@register("recall@K", MetricFacts("retrieval", "share of queries with a positive among the K nearest", reach=0))
def recall(groups: TieGroups, *, k: int, form: None = None) -> Array:
    """Probability that a positive is among the first k: 1 - C(m-p, k')/C(m, k') within the nearest group.

    As for every retrieval metric, `groups` are the positives of a block of queries with their ranks, grouped by equal
    distance; the result is float64 (queries,). Call it through `evaluate(embeddings, labels, metrics=["recall@1"])`.
    """
    values = (groups.before[groups.nearest] < k).astype(np.float64)
    return _over_nearest(groups, values, partial(_some_hit, k=k))


@register(
    "precision@K", MetricFacts("retrieval", "positives among the first K, divided by K", reach=lambda positives, k: k)
)
def precision(groups: TieGroups, *, k: int, form: None = None) -> Array:
    return hits_within(groups, k) / k


@register(
    "r_precision",
    MetricFacts("retrieval", "positives among the first R, divided by R, the number of positives", reach=_first_r),
)
def r_precision(groups: TieGroups, *, k: None = None, form: None = None) -> Array:
    return _share(hits_within(groups, groups.count), groups.count)


@register(
    "map@r",
    MetricFacts("retrieval", "sum of the precisions at the positives among the first R, divided by R", reach=_first_r),
)
def map_at_r(groups: TieGroups, *, k: None = None, form: None = None) -> Array:
    return _share(precision_sum(groups, groups.count), groups.count)


@register("map", MetricFacts("retrieval", "mean over the positives of the precision at their ranks in the whole list"))
def mean_average_precision(groups: TieGroups, *, k: None = None, form: None = None) -> Array:
    return _share(precision_sum(groups, groups.gallery), groups.count)


@register(
    "map@K",
    MetricFacts(
        "retrieval",
        "sum of the precisions at the positives among the first K; divided by R "
        "(positives), by R + 1 (released), or hits among K divided by K (equation)",
        ("positives", "released", "equation"),
        reach=lambda positives, k: k,
    ),
)
def map_at_k(groups: TieGroups, *, k: int, form: str) -> Array:
    if form == "equation":
        return hits_within(groups, k) / k
    return _share(precision_sum(groups, k), groups.count + (form == "released"))


@register(
    "map@c",
    MetricFacts(
        "retrieval",
        "mAP@C: MAP@R (map_at_r); or with class size c = R + 1 instead of R, as in the "
        "released code (released); or hits among the first c, divided by c (equation)",
        ("map_at_r", "released", "equation"),
        reach=lambda positives, k: positives + 1,
    ),
)
def map_at_c(groups: TieGroups, *, k: None = None, form: str) -> Array:
    if form == "map_at_r":
        return map_at_r(groups)
    size = groups.count + 1
    return _share(hits_within(groups, size) if form == "equation" else precision_sum(groups, size), size)


@register("mrr", MetricFacts("retrieval", "1 / rank of the nearest positive", reach=0))
def reciprocal_rank(groups: TieGroups, *, k: None = None, form: None = None) -> Array:
    """Sum over j of C(m-j, p-1)/C(m, p)/(n0+j) within the nearest group."""
    return _over_nearest(groups, 1.0 / (groups.before[groups.nearest] + 1), _first_reciprocal)


def reach(metrics: Iterable[Metric], positives: Array) -> Array:
    """The last rank that the metrics read, for queries with the given numbers of positives; at least the nearest."""
    last = np.zeros(len(positives), np.int64)
    for metric in metrics:
        rank = EVERYWHERE if metric.facts.reach is None else metric.facts.reach
        np.maximum(last, rank(positives, metric.k) if callable(rank) else rank, out=last)
    return last


def metric_values(metrics: Sequence[Metric], counts: Counts, gallery: int, *, ties: str) -> Array:
    """`[metrics, queries]`: the values of all queries that were counted."""
    values = np.zeros((len(metrics), counts.end - counts.begin))
    for queries, groups in tie_groups(counts, gallery, ties=ties):
        for row, metric in zip(values, metrics, strict=True):
            row[queries] = metric.compute(groups, k=metric.k, form=metric.form)
    return values


def hits_within(groups: TieGroups, cut: int | Array) -> Array:
    """Expected number of positives among the first `cut` (one number, or one per query)."""
    seen = np.clip(_per_group(groups, cut) - groups.before, 0, groups.rows)
    return _total(groups, groups.positives * seen / groups.rows)


def precision_sum(groups: TieGroups, cut: int | Array) -> Array:
    """Expected sum, over the positives at ranks up to `cut`, of (hits up to that rank) / rank.

    Within a group the terms are (p/m) (b + 1 + (j-1) c) / (n0+j) with c = (p-1)/(m-1), that is (p/m) (c + (b + 1 -
    (n0+1) c) / rank): their sum needs two harmonic numbers and no loop over the ranks.
    """
    before = groups.before
    end = before + np.clip(_per_group(groups, cut) - before, 0, groups.rows)
    terms = np.where(end > before, (groups.hits + 1) / (before + 1), 0.0)  # the usual case: a group of one row
    tied = np.flatnonzero(groups.rows > 1)
    if len(tied):
        before, end, rows, positives = before[tied], end[tied], groups.rows[tied], groups.positives[tied]
        harmonic = _harmonic(groups.gallery)
        slope = (positives - 1) / (rows - 1)
        first = groups.hits[tied] + 1 - (before + 1) * slope
        terms[tied] = positives / rows * (slope * (end - before) + first * (harmonic[end] - harmonic[before]))
    return _total(groups, terms)


def _per_group(groups: TieGroups, cut: int | Array) -> int | Array:
    return cut[groups.query] if isinstance(cut, np.ndarray) else cut


def _total(groups: TieGroups, values: Array) -> Array:
    return np.bincount(groups.query, weights=values, minlength=len(groups.count))


def _share(total: Array, divisor: Array) -> Array:
    """0 for a query without positives."""
    return np.where(divisor > 0, total / np.maximum(divisor, 1), 0.0)


@lru_cache(maxsize=2)
def _harmonic(size: int) -> Array:
    return np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, size + 1))])


def _over_nearest(groups: TieGroups, values: Array, tied: Callable[[Array, Array, Array], Array]) -> Array:
    """Value from each query's nearest group: `values` if it contains only positives, else `tied(before, rows,
    positives)`, computed once per distinct group."""
    nearest = groups.nearest
    before, rows, positives = groups.before[nearest], groups.rows[nearest], groups.positives[nearest]
    mixed = np.flatnonzero(rows > positives)
    if len(mixed):
        kinds = np.stack([before[mixed], rows[mixed], positives[mixed]], axis=1)
        distinct, which = np.unique(kinds, axis=0, return_inverse=True)
        values[mixed] = tied(*distinct.T)[which.reshape(-1)]
    result = np.zeros(len(groups.count))
    result[groups.query[nearest]] = values
    return result


def _some_hit(before: Array, rows: Array, positives: Array, k: int) -> Array:
    drawn = np.clip(k - before, 0, rows)
    # C(m-p, k')/C(m, k') is symmetric in p and k': a product of as many factors as the smaller of the two.
    few, many = np.minimum(positives, drawn), np.maximum(positives, drawn)
    none = np.ones(len(rows))
    for step in range(int(few.max())):
        factor = np.maximum(rows - many - step, 0) / np.maximum(rows - step, 1)
        none *= np.where(step < few, factor, 1.0)
    return 1.0 - none


def _first_reciprocal(before: Array, rows: Array, positives: Array) -> Array:
    weight = positives / rows  # probability that the first positive is at position j of the group, here j = 1
    total = np.zeros(len(rows))
    for step in range(int((rows - positives).max()) + 1):
        total += weight / (before + step + 1)
        weight = weight * np.maximum(rows - positives - step, 0) / np.maximum(rows - step - 1, 1)
    return total
