"""Queries of an evaluation: a warning if each finds itself in the gallery, and a random sample of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from levelfield.errors import BadSpecification
from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.metrics.registry import Metric
from levelfield.evaluation.result import Sample
from levelfield.evaluation.search.order import row_numbers
from levelfield.evaluation.statistics.intervals import NO_ENDS, Interval, largest_share
from levelfield.randomness import numpy_stream

_CHECKED = 64  # queries that are looked up before all others


class QueriesInGallery(UserWarning):
    """Queries find themselves in the gallery, because `query_ids` does not exclude them."""


def warn_of_queries_in_gallery(inputs: Inputs) -> None:
    """Warn if every query has an identical row in the gallery and is not excluded by id.

    A few copies do not trigger the warning: a gallery may contain a photo twice.
    """
    without_id = inputs.query_ids < 0
    if inputs.self_search or not without_id.any():
        return
    if isinstance(inputs.gallery, np.ndarray):  # in memory, so a look at the first column of some queries is cheap
        some = np.flatnonzero(without_id)[:: 1 + len(without_id) // _CHECKED]
        if not np.isin(inputs.query[some][:, 0], inputs.gallery[:, 0]).all():
            return
    if np.isin(row_numbers(inputs.query)[without_id], row_numbers(inputs.gallery)).all():
        warnings.warn(
            f"All {without_id.sum():,} queries are also rows of the gallery, so each finds itself first. To compare "
            "every row with all other rows, leave out the gallery; or pass the gallery row of each query as query ids.",
            QueriesInGallery,
            stacklevel=4,  # the caller of `evaluate`, whose arguments a wrapper checks
        )


def refuse_with_sample(metrics: Iterable[Metric], average: str) -> None:
    """Refuse scores of whole sets: those of a sample would be other scores."""
    if average != "query":
        raise BadSpecification(
            f"sample needs average='query': a sample of queries misses classes, so it has no mean over classes "
            f"(average={average!r})."
        )
    for metric in metrics:
        if metric.kind != "retrieval":
            raise BadSpecification(
                f"Metric '{metric.name}' describes all embeddings together and cannot be measured on a sample of the "
                "queries. Evaluate it without sample, or use a retrieval metric such as recall@1."
            )


def draw_queries(inputs: Inputs, size: int, *, seed: int) -> tuple[Inputs, Sample | None]:
    """Inputs with a random sample of the queries, each still excluded by id; unchanged if there are not more queries.

    The sample depends on the seed, the number of queries and their order.
    """
    count = len(inputs.query)
    if size >= count:
        return inputs, None
    rows = np.sort(numpy_stream(seed, "evaluation", "sample of queries").choice(count, size, replace=False))
    sampled = replace(
        inputs,
        query=inputs.query[rows],
        query_codes=inputs.query_codes[rows],
        query_ids=inputs.query_ids[rows],
        self_search=False,
    )
    return sampled, Sample(rows, count, seed)


def for_all_queries(
    sample: Sample, per_query: Mapping[str, Array], counted: Array, population: int, *, level: float
) -> Sample:
    """The sample with an interval for the score of all `population` counted queries of the same file.

    Student's t on the logit with the correction for a finite population; it is a point if all were measured.
    """
    intervals = {name: _interval(values[counted], population, level) for name, values in per_query.items()}
    return replace(sample, intervals=intervals)


def _interval(values: Array, population: int, level: float) -> Interval:
    from scipy.special import expit, logit, stdtrit

    count = len(values)
    if count < 2:
        return Interval(math.nan, *NO_ENDS, level)
    mean, variance = math.fsum(values) / count, float(values.var(ddof=1))
    rest = max(1 - count / population, 0.0)  # correction for a finite population
    if variance == 0:  # the others may differ: Clopper and Pearson's bound
        half = largest_share(0.0, count, level) * rest
        return Interval(mean, max(mean - half, 0.0), min(mean + half, 1.0), level)
    half = float(stdtrit(count - 1, (1 + level) / 2)) * math.sqrt(variance / count * rest)
    if not 0 < mean < 1:
        return Interval(mean, mean - half, mean + half, level)
    low, high = (float(expit(logit(mean) + sign * half / (mean * (1 - mean)))) for sign in (-1, 1))
    return Interval(mean, low, high, level)
