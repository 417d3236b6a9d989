"""From embeddings and labels to figures: a pure function of its arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from levelfield.errors import BadSpecification, unknown
from levelfield.evaluation import clustering, retrieval  # noqa: F401 (they register the metrics)
from levelfield.evaluation.clustering import tabulate
from levelfield.evaluation.distances import Prepared, prepare
from levelfield.evaluation.inputs import Array, Inputs, check_inputs
from levelfield.evaluation.kmeans import STEPS, kmeans
from levelfield.evaluation.metrics import Metric, parse_all
from levelfield.evaluation.ranks import TIES, tie_groups
from levelfield.evaluation.result import AVERAGES, LONE, Evaluation, mean_of
from levelfield.evaluation.signature import Definition, Representation, Signature


def evaluate(
    embeddings: Any, labels: Any, *, gallery: Any = None, gallery_labels: Any = None, query_ids: Any = None,
    metrics: Iterable[str] | None = None, k: Iterable[int] = (1, 2, 4, 8), distance: str = "cosine",
    average: str = "query", ties: str = "expected", lone: str = "exclude", dim: int | None = None, starts: int = 3,
    seed: int = 0,
) -> Evaluation:
    """Measure embeddings: each query is searched among all others, itself left out by id, or in a gallery.

    embeddings: (n, dim) array or tensor; labels: (n,) whole numbers or text. With `gallery` and `gallery_labels` the
    embeddings are searched there; `query_ids[i]` then names the gallery row that is query i itself (-1: none).
    metrics: see `names()`; None means all usual retrieval metrics and no clustering. A bare `recall` stands for
    recall@K with each `k`. distance: cosine, euclidean, dot or hamming. ties: the mean over all orders of rows that are
    level (expected), or the worst or best of them (pessimistic, optimistic). lone: queries without relatives are left
    out (exclude) or count as 0 (miss). dim: only the first columns. starts: k-means starts of the clustering metrics,
    which cluster the queries into as many clusters as they have classes.

    The order of rows cannot change a result: the engine works in an order of its own and sums exactly. Nor did the
    number of threads wherever measured, but the matrix library promises equal bits for one thread only.
    Memory: the embeddings twice, and about 64 MB (more only beyond 100,000 gallery rows: 256 bytes each).

    >>> result = evaluate([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]], [0, 0, 1, 1], metrics=["recall@1", "map@r"])
    >>> dict(result)
    {'recall@1': 1.0, 'map@r': 1.0}
    >>> result.per_query["recall@1"]
    array([1., 1., 1., 1.])
    >>> str(result.signature("map@r"))
    'map@r|self:id|ties:expected|lone:exclude|avg:query|dist:cosine|q:4|g:4|v:1|dim:2|bits:64|norm:unit'
    """
    for kind, given, known in (("average", average, AVERAGES), ("way to treat ties", ties, TIES),
                               ("way to treat lone queries", lone, LONE)):
        if given not in known:
            raise unknown(kind, given, known)
    if starts < 1:
        raise BadSpecification(f"starts={starts}: at least one k-means start is needed.")
    wanted = parse_all(metrics, k=tuple(k))
    inputs = check_inputs(embeddings, labels, gallery=gallery, gallery_labels=gallery_labels, query_ids=query_ids,
                          dim=dim)
    prepared = prepare(inputs.query, inputs.gallery, distance=distance)
    alone = _lone_queries(inputs)
    counted = ~alone if lone == "exclude" else np.ones(len(alone), dtype=bool)
    per_query = _retrieval(prepared, inputs, [one for one in wanted if one.kind == "retrieval"], ties)
    per_start = _clustering(prepared, inputs, [one for one in wanted if one.kind == "clustering"], starts, seed)
    values = {metric.name: mean_of(per_query[metric.name], inputs.query_codes, counted, average=average)
              if metric.name in per_query else math.fsum(per_start[metric.name]) / starts for metric in wanted}

    representation = Representation(dim=inputs.query.shape[1], bits=1 if distance == "hamming" else inputs.bits,
                                    norm="unit" if distance == "cosine" else "none")
    own = "id" if (inputs.query_ids >= 0).any() else "none"

    def signature(metric: Metric) -> Signature:
        if metric.kind == "clustering":
            definition = Definition(metric.name, "none", "none", "none", "none", distance, len(inputs.query),
                                    len(inputs.query), clusterer=f"lloyd{STEPS}x{starts}-seed{seed}")
        else:
            definition = Definition(metric.name, own, ties, lone, average, distance, len(inputs.query),
                                    len(inputs.gallery))
        return Signature(definition, representation)

    return Evaluation(values, per_query, per_start, alone, counted, inputs.query_codes, inputs.classes,
                      {metric.name: signature(metric) for metric in wanted})


def _lone_queries(inputs: Inputs) -> Array:
    relatives = np.bincount(inputs.gallery_codes, minlength=len(inputs.classes))[inputs.query_codes]
    itself = (inputs.query_ids >= 0) & (inputs.gallery_codes[inputs.query_ids] == inputs.query_codes)
    return relatives == itself


def _retrieval(prepared: Prepared, inputs: Inputs, wanted: list[Metric], ties: str) -> dict[str, Array]:
    """All retrieval metrics from one pass over the blocks of queries."""
    if not wanted:
        return {}
    result = {metric.name: np.zeros(len(inputs.query)) for metric in wanted}
    blocks = tie_groups(prepared, inputs.query_codes, inputs.gallery_codes, inputs.query_ids, ties=ties)
    for positions, groups in blocks:
        for metric in wanted:
            result[metric.name][positions] = metric.compute(groups, k=metric.k, form=metric.form)
    return result


def _clustering(
    prepared: Prepared, inputs: Inputs, wanted: list[Metric], starts: int, seed: int,
) -> dict[str, tuple[float, ...]]:
    """All clustering metrics from the same k-means starts."""
    if not wanted:
        return {}
    clusters = len(np.unique(inputs.query_codes))
    tables = [tabulate(inputs.query_codes, kmeans(prepared.query, clusters, seed=seed, start=start))
              for start in range(starts)]
    return {metric.name: tuple(metric.compute(table, form=metric.form) for table in tables) for metric in wanted}
