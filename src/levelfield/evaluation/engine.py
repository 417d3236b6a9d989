"""Compute scores from embeddings and labels: a pure function of its arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from levelfield.errors import BadSpecification, unknown
from levelfield.evaluation.class_intervals import check_level, intervals
from levelfield.evaluation.extent import Division
from levelfield.evaluation.file_rows import FileRows
from levelfield.evaluation.inputs import Array, Arrays, Inputs, check_inputs
from levelfield.evaluation.itself import warn_of_queries_in_gallery
from levelfield.evaluation.large.sample import draw, for_all_queries, refuse_with_sample
from levelfield.evaluation.large.search import search_in_blocks
from levelfield.evaluation.large.shards import Shards
from levelfield.evaluation.metrics.clustering import tabulate
from levelfield.evaluation.metrics.geometry import measure, pairs_of, refuse_undefined
from levelfield.evaluation.metrics.kmeans import STEPS, clusterings
from levelfield.evaluation.metrics.registry import Metric, parse_all
from levelfield.evaluation.metrics.retrieval import reach
from levelfield.evaluation.result import AVERAGES, LONE, Average, Evaluation, Lone, mean_of
from levelfield.evaluation.search.arrangement import arrange
from levelfield.evaluation.search.budget import check_copies, fits, pairs_within
from levelfield.evaluation.search.distances import DISTANCES, Chosen, Distance, prepare
from levelfield.evaluation.search.neighbours import neighbours
from levelfield.evaluation.search.order import canonical_order
from levelfield.evaluation.search.ranking import best_way, search
from levelfield.evaluation.search.ranks import TIES, Ties, tie_groups
from levelfield.evaluation.signature import Definition, Representation, Signature
from levelfield.progress import SILENT, Progress, Stage


def evaluate(
    embeddings: Arrays,
    labels: Arrays,
    *,
    gallery: Arrays | None = None,
    gallery_labels: Arrays | None = None,
    query_ids: Arrays | None = None,
    metrics: Iterable[str] | None = None,
    k: int | Iterable[int] = (1, 2, 4, 8),
    distance: Distance = "cosine",
    average: Average = "query",
    ties: Ties = "expected",
    lone: Lone = "exclude",
    dim: int | None = None,
    starts: int = 3,
    ci: float | None = None,
    seed: int = 0,
    memory: str | int = "2GB",
    sample: int | None = None,
    shards: Shards | None = None,
    progress: Progress = SILENT,
) -> Evaluation:
    """Evaluate embeddings: search each query among all other rows (itself excluded by id) or in a gallery.

    The order of rows does not change a result: the engine uses its own order and sums exactly. The number of threads
    did not change a result in any measurement, but the matrix library guarantees equal bits only for one thread.

    Args:
        embeddings: (n, dim) numbers, the queries: an array, a tensor or lists. A `numpy.memmap` may be larger than
            memory.
        labels: (n,) integers or text.
        gallery: (m, dim), the rows to search in; without it, the other embeddings. Warns if all queries are
            in the gallery and no ids exclude them: each query would find itself.
        gallery_labels: (m,), needed with a gallery.
        query_ids: (n,) integers: the gallery row that is query i itself, -1 if there is none.
        metrics: see `names()`; None means all usual retrieval metrics and no clustering. A bare `recall` means
            recall@K for each `k`. Clustering metrics cluster the queries into as many clusters as there are classes.
            Geometry metrics also describe the queries: rows of unit length under cosine, bits under hamming,
            otherwise the rows as given.
        k: the K of metrics without a number.
        distance: the distance that ranks neighbours.
        average: over queries, or over the means of classes.
        ties: the mean over all orders of rows at equal distance (expected), or the worst or best of them.
        lone: queries without positives are excluded (exclude) or count as 0 (miss).
        dim: use only the first columns.
        starts: k-means starts of the clustering metrics.
        ci: confidence level of intervals of the retrieval metrics over classes (0.95); None: no intervals.
        seed: seed of k-means.
        memory: limit beyond the caller's arrays ("2GB", "500MB" or bytes). Retrieval needs a copy of the embeddings,
            64 MB and 12 bytes for each pair of query and positive; with less, queries are searched in several rounds.
            If the embeddings are a `numpy.memmap`, no copy is needed: below that, they are read in panels.
            Clustering and geometry need a copy of the queries and, for k-means, four of the centres.
        sample: measure only this many random queries, each in the whole gallery; `Evaluation.sample` has the intervals
            of the scores of all queries.
        shards: who searches blocks of queries (`in_processes(2)`, `on_ray()`); None: the threads of this process.
        progress: one stage, whose steps are similarities.

    Returns:
        An `Evaluation`: a mapping from metric names to scores, with `per_query` (n,) values of each retrieval
        metric, the `intervals`, and the `signature` that defines each score.

    >>> result = evaluate([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]], [0, 0, 1, 1], metrics=["recall@1", "map@r"])
    >>> dict(result)
    {'recall@1': 1.0, 'map@r': 1.0}
    >>> result.per_query["recall@1"]
    array([1., 1., 1., 1.])
    >>> str(result.signature("map@r"))
    'map@r|self:id|ties:expected|lone:exclude|avg:query|dist:cosine|q:4|g:4|v:1|dim:2|bits:64|norm:unit'
    """
    for kind, given, known in (
        ("average", average, AVERAGES),
        ("treatment of ties", ties, TIES),
        ("distance", distance, DISTANCES),
        ("treatment of lone queries", lone, LONE),
    ):
        if given not in known:
            raise unknown(kind, str(given), known)
    if starts < 1:
        raise BadSpecification(f"starts={starts}: the number of k-means starts must be at least 1.")
    if ci is not None:
        check_level(ci)
    wanted = parse_all(metrics, k=[k] if isinstance(k, int) else tuple(k))
    refuse_undefined(wanted, distance)
    inputs = check_inputs(
        FileRows.of(embeddings) or embeddings,
        labels,
        gallery=FileRows.of(gallery) or gallery,
        gallery_labels=gallery_labels,
        query_ids=query_ids,
        dim=dim,
    )
    warn_of_queries_in_gallery(inputs)
    alone, sampled = _lone_queries(inputs), None
    if sample is not None:
        refuse_with_sample(wanted, average)
        population = int((~alone).sum()) if lone == "exclude" else len(alone)
        inputs, sampled = draw(inputs, sample, seed=seed)
        alone = alone if sampled is None else alone[sampled.rows]
    counted = ~alone if lone == "exclude" else np.ones(len(alone), dtype=bool)
    measured, searched, clustered = (
        [one for one in wanted if one.kind == kind] for kind in ("geometry", "retrieval", "clustering")
    )
    rows, clusters = len(inputs.query), len(np.unique(inputs.query_codes))
    amounts = (
        pairs_of(rows) * sum(one.facts.all_pairs for one in measured),
        rows * len(inputs.gallery) if searched else 0,
        starts * (STEPS + 1) * rows * clusters if clustered else 0,
    )
    stage = progress.stage("evaluating", sum(amounts))
    if measured or clustered:
        names = [one.name for one in (*measured, *clustered)]
        check_copies(memory, inputs, names, clusters=clusters if clustered else 0, threads=torch.get_num_threads())
    of_set = measure(inputs.query, inputs.query_codes, measured, distance=distance, stage=stage)
    per_query, divided = _retrieval(inputs, searched, ties, distance, memory, shards, stage)
    per_start = _clustering(inputs, clustered, distance, clusters, starts, seed, stage)
    values = {
        metric.name: of_set[metric.name]
        if metric.name in of_set
        else mean_of(per_query[metric.name], inputs.query_codes, counted, average=average)
        if metric.name in per_query
        else math.fsum(per_start[metric.name]) / starts
        for metric in wanted
    }

    representation = Representation(
        dim=inputs.query.shape[1],
        bits=1 if distance == "hamming" else inputs.bits,
        norm="unit" if distance == "cosine" else "none",
    )
    own = "id" if (inputs.query_ids >= 0).any() else "none"

    def signature(metric: Metric) -> Signature:
        if metric.kind == "clustering":
            definition = Definition(
                metric.name,
                "none",
                "none",
                "none",
                "none",
                distance,
                len(inputs.query),
                len(inputs.query),
                clusterer=f"lloyd{STEPS}x{starts}-seed{seed}",
            )
        elif metric.kind == "geometry":
            return _signature_of_set(metric, distance, len(inputs.query), representation)
        else:
            definition = Definition(
                metric.name,
                own,
                ties,
                lone,
                average,
                distance,
                len(inputs.query),
                len(inputs.gallery),
                sample=str(sampled or "none"),
            )
        return Signature(definition, representation)

    if sampled is not None and ci is not None:
        sampled = for_all_queries(sampled, per_query, counted, population, level=ci)
    return Evaluation(
        values,
        per_query,
        per_start,
        alone,
        counted,
        inputs.query_codes,
        inputs.classes,
        {metric.name: signature(metric) for metric in wanted},
        {} if ci is None else intervals(per_query, inputs.query_codes, counted, average=average, level=ci),
        search=partial(neighbours, inputs, distance=distance),
        sample=sampled,
        divided=divided,
    )  # the caller's arrays, not copied


def _signature_of_set(metric: Metric, distance: str, rows: int, shown: Representation) -> Signature:
    """Definition of a geometry metric, which has no search: the distance, and whether rows have unit length."""
    definition = Definition(metric.name, "none", "none", "none", "none", distance, rows, rows)
    return Signature(definition, replace(shown, norm=metric.facts.norm or shown.norm))


def _lone_queries(inputs: Inputs) -> Array:
    positives = np.bincount(inputs.gallery_codes, minlength=len(inputs.classes))[inputs.query_codes]
    itself = (inputs.query_ids >= 0) & (inputs.gallery_codes[inputs.query_ids] == inputs.query_codes)
    alone: Array = positives == itself
    return alone


def _retrieval(
    inputs: Inputs,
    wanted: list[Metric],
    ties: str,
    distance: str,
    memory: str | int,
    shards: Shards | None,
    stage: Stage,
) -> tuple[dict[str, Array], Division | None]:
    """All retrieval metrics from one search, and how it was divided (None: all rows were in memory)."""
    if not wanted:
        return {}, None
    way, threads = best_way(inputs), torch.get_num_threads()
    on_disk = isinstance(inputs.gallery, FileRows) and way == "walk"
    if shards is not None or (on_disk and not fits(memory, inputs, metrics=len(wanted), threads=threads, way=way)):
        return search_in_blocks(inputs, wanted, ties=ties, distance=distance, memory=memory, shards=shards, stage=stage)
    result = {metric.name: np.zeros(len(inputs.query)) for metric in wanted}
    pairs = pairs_within(memory, inputs, metrics=len(wanted), threads=threads, way=way)
    arranged = arrange(inputs, distance=distance)
    last = reach(wanted, arranged.positives)
    for counts in search(arranged, last, pairs=pairs, way=way, device=inputs.device, stage=stage):
        for queries, groups in tie_groups(counts, len(inputs.gallery), ties=ties):
            for metric in wanted:
                result[metric.name][arranged.query_order[queries]] = metric.compute(
                    groups, k=metric.k, form=metric.form
                )
    return result, None


def _clustering(
    inputs: Inputs,
    wanted: list[Metric],
    distance: str,
    clusters: int,
    starts: int,
    seed: int,
    stage: Stage,
) -> dict[str, tuple[float, ...]]:
    """All clustering metrics of the queries from the same k-means starts."""
    if not wanted:
        return {}
    order = canonical_order(inputs.query, inputs.query_codes)
    queries = Chosen(inputs.query, order)
    rows = prepare(queries, queries, distance=distance).query
    found = clusterings(rows, clusters, seed=seed, starts=range(starts), stage=stage)
    tables = [tabulate(inputs.query_codes[order], one) for one in found]
    return {metric.name: tuple(metric.compute(table, form=metric.form) for table in tables) for metric in wanted}
