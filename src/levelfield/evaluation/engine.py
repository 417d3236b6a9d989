"""Compute scores from embeddings and labels: a pure function of its arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from levelfield.evaluation.inputs import Array, Arrays, FileRows, Inputs, check_inputs
from levelfield.evaluation.metrics.clustering import tabulate
from levelfield.evaluation.metrics.geometry import geometry_scores, refuse_undefined
from levelfield.evaluation.metrics.kmeans import STEPS, clusterings
from levelfield.evaluation.metrics.registry import Metric, parse_all
from levelfield.evaluation.metrics.retrieval import metric_values, reach
from levelfield.evaluation.queries import draw_queries, for_all_queries, refuse_with_sample, warn_of_queries_in_gallery
from levelfield.evaluation.query_blocks import Shards, search_in_blocks
from levelfield.evaluation.result import Average, Evaluation, Lone, Sample, class_intervals, mean_of
from levelfield.evaluation.search.arrangement import Ties, arrange
from levelfield.evaluation.search.dense import neighbours
from levelfield.evaluation.search.distances import Change, Distance, Selection
from levelfield.evaluation.search.order import canonical_order
from levelfield.evaluation.search.ranking import Division, InMemory, best_search, check_copies, count_ranks
from levelfield.evaluation.signature import Definition, Representation, Signature
from levelfield.evaluation.statistics.intervals import check_level
from levelfield.progress import SILENT, Progress, Stage
from levelfield.settings import Count, checked


@checked
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
    starts: Count = 3,
    ci: float | None = None,
    seed: int = 0,
    memory: str | int = "2GB",
    sample: Count | None = None,
    shards: Shards | None = None,
    progress: Progress = SILENT,
) -> Evaluation:
    """Evaluate embeddings: search each query among all other rows (itself excluded by id) or in a gallery.

    The order of rows does not change a result; the number of threads did not in any measurement.

    Args:
        embeddings: (n, dim) numbers, the queries: array, tensor, lists, or a `numpy.memmap` larger than memory.
        labels: (n,) integers or text.
        gallery: (m, dim), the rows to search in; without it, the other embeddings. Warns if all queries are in it.
        gallery_labels: (m,), needed with a gallery.
        query_ids: (n,) integers: the gallery row that is query i itself, -1 if there is none.
        metrics: see `names()`; None: all usual retrieval metrics. A bare `recall` means recall@K for each `k`.
            Clustering and geometry metrics describe the queries, as `distance` compares them.
        k: the K of metrics without a number.
        distance: ranks neighbours.
        average: over queries, or over the means of classes.
        ties: the mean over all orders of rows at equal distance (expected), or the worst or best of them.
        lone: queries without positives are excluded (exclude) or count as 0 (miss).
        dim: use only the first columns.
        starts: k-means starts of the clustering metrics, with as many clusters as there are classes.
        ci: confidence level of intervals of the retrieval metrics over classes (0.95); None: no intervals.
        seed: seed of k-means and of the sample.
        memory: limit beyond the caller's arrays ("2GB" or bytes). Retrieval needs a copy of the embeddings, 64 MB and
            12 bytes for each pair of query and positive at a time; of a `numpy.memmap`, parts are read instead.
        sample: measure only this many random queries; `Evaluation.sample` has intervals of the scores of all queries.
        shards: who searches blocks of queries (`in_processes(2)`, `on_ray()`); None: the threads of this process.
        progress: one stage, whose steps are similarities.

    Returns:
        Scores by name, `per_query` (n,) values of each retrieval metric, `intervals`, `signature` of each score.

    >>> result = evaluate([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]], [0, 0, 1, 1], metrics=["recall@1", "map@r"])
    >>> dict(result), result.per_query["recall@1"].tolist()
    ({'recall@1': 1.0, 'map@r': 1.0}, [1.0, 1.0, 1.0, 1.0])
    """
    parsed = parse_all(metrics, k=[k] if isinstance(k, int) else tuple(k))
    check_level(ci)
    refuse_undefined(parsed, distance)
    settings = _Settings(parsed, distance, average, ties, lone, starts, ci, seed, memory, shards)
    if sample is not None:
        refuse_with_sample(parsed, average)
    inputs = check_inputs(
        FileRows.of(embeddings) or embeddings,
        labels,
        gallery=FileRows.of(gallery) or gallery,
        gallery_labels=gallery_labels,
        query_ids=query_ids,
        dim=dim,
    )
    warn_of_queries_in_gallery(inputs)
    if sample is None:
        return _evaluate(inputs, settings, progress)
    queries, drawn = draw_queries(inputs, sample, seed=seed)
    result = _evaluate(queries, settings, progress, drawn)
    if drawn is not None and ci is not None:
        population = int(settings.counted(inputs).sum())
        drawn = for_all_queries(drawn, result.per_query, result.counted, population, level=ci)
    return replace(result, sample=drawn)


@dataclass(frozen=True)
class _Settings:
    """Arguments of `evaluate` without the arrays."""

    metrics: list[Metric]
    distance: str
    average: str
    ties: str
    lone: str
    starts: int
    ci: float | None
    seed: int
    memory: str | int
    shards: Shards | None

    def counted(self, inputs: Inputs) -> Array:
        """Which queries are averaged."""
        return np.asarray((inputs.positives > 0) | (self.lone == "miss"))


def _evaluate(inputs: Inputs, settings: _Settings, progress: Progress, sample: Sample | None = None) -> Evaluation:
    """All scores; metrics of one kind share their work. sample: what the queries are a sample of."""
    kinds: dict[str, list[Metric]] = {"geometry": [], "retrieval": [], "clustering": []}
    for metric in settings.metrics:
        kinds[metric.kind].append(metric)
    geometry, retrieval, clustering = kinds.values()
    rows, clusters = len(inputs.query), len(np.unique(inputs.query_codes)) if clustering else 0
    amount = sum(metric.facts.all_pairs for metric in geometry) * rows * (rows - 1) // 2
    amount += rows * len(inputs.gallery) * bool(retrieval) + settings.starts * (STEPS + 1) * rows * clusters
    stage = progress.stage("evaluating", amount)
    scores: dict[str, float] = {}
    per_query: dict[str, Array] = {}
    per_start: dict[str, tuple[float, ...]] = {}
    divided = None
    if geometry or clustering:
        names = [metric.name for metric in (*geometry, *clustering)]
        check_copies(settings.memory, inputs, names, clusters=clusters, threads=torch.get_num_threads())
    if geometry:
        scores = geometry_scores(inputs.query, inputs.query_codes, geometry, distance=settings.distance, stage=stage)
    if retrieval:
        per_query, divided = _search(inputs, retrieval, settings, stage)
    if clustering:
        per_start = _cluster(inputs, clustering, clusters, settings, stage)
    counted, codes, average, intervals = settings.counted(inputs), inputs.query_codes, settings.average, {}
    for name, values in per_query.items():
        scores[name] = mean_of(values, codes, counted, average=average)
    for name, of_starts in per_start.items():
        scores[name] = math.fsum(of_starts) / len(of_starts)
    if settings.ci is not None:
        intervals = class_intervals(per_query, codes, counted, average=average, level=settings.ci)
    return Evaluation(
        {metric.name: scores[metric.name] for metric in settings.metrics},
        per_query,
        per_start,
        inputs.positives == 0,
        counted,
        codes,
        inputs.classes,
        _signatures(inputs, settings, str(sample or "none")),
        intervals,
        search=partial(neighbours, inputs, distance=settings.distance),  # the caller's arrays, not copied
        sample=sample,
        divided=divided,
    )


def _search(
    inputs: Inputs, metrics: list[Metric], settings: _Settings, stage: Stage
) -> tuple[dict[str, Array], Division | None]:
    """All retrieval metrics from one search, and how it was divided (None: all rows were in memory)."""
    search, memory, distance = best_search(inputs), settings.memory, settings.distance
    needed = InMemory.of(inputs, metrics=len(metrics), threads=torch.get_num_threads(), search=search)
    on_disk = isinstance(inputs.gallery, FileRows) and search == "blocked"
    if settings.shards is not None or (on_disk and not needed.fits(memory)):
        return search_in_blocks(
            inputs, metrics, ties=settings.ties, distance=distance, memory=memory, shards=settings.shards, stage=stage
        )
    pairs = needed.pairs(memory, inputs)
    arranged = arrange(inputs, distance=distance)
    last_rank = reach(metrics, arranged.positives)
    values = np.zeros((len(metrics), len(inputs.query)))
    for counts in count_ranks(arranged, last_rank, pairs=pairs, search=search, device=inputs.device, stage=stage):
        queries = arranged.query_order[counts.begin : counts.end]
        values[:, queries] = metric_values(metrics, counts, len(inputs.gallery), ties=settings.ties)
    return {metric.name: row for metric, row in zip(metrics, values, strict=True)}, None


def _cluster(
    inputs: Inputs, metrics: list[Metric], clusters: int, settings: _Settings, stage: Stage
) -> dict[str, tuple[float, ...]]:
    """All clustering metrics of the queries from the same k-means starts."""
    order = canonical_order(inputs.query, inputs.query_codes)
    queries = Selection(inputs.query, order)
    rows = Change.of(queries, queries, distance=settings.distance).rows(queries)
    results = clusterings(rows, clusters, seed=settings.seed, starts=range(settings.starts), stage=stage)
    tables = [tabulate(inputs.query_codes[order], labels) for labels in results]
    return {metric.name: tuple(metric.compute(table, form=metric.form) for table in tables) for metric in metrics}


def _signatures(inputs: Inputs, settings: _Settings, sample: str) -> dict[str, Signature]:
    distance, queries = settings.distance, len(inputs.query)
    of_set = Definition("", "none", "none", "none", "none", distance, queries, queries)
    definitions = {
        "geometry": of_set,
        "clustering": replace(of_set, clusterer=f"lloyd{STEPS}x{settings.starts}-seed{settings.seed}"),
        "retrieval": replace(
            of_set,
            self_excluded="id" if (inputs.query_ids >= 0).any() else "none",
            ties=settings.ties,
            lone=settings.lone,
            average=settings.average,
            gallery=len(inputs.gallery),
            sample=sample,
        ),
    }
    bits, norm = 1 if distance == "hamming" else inputs.bits, "unit" if distance == "cosine" else "none"
    rows = Representation(inputs.query.shape[1], bits, norm)
    signatures = {}
    for metric in settings.metrics:
        definition = replace(definitions[metric.kind], metric=metric.name)
        signatures[metric.name] = Signature(definition, replace(rows, norm=metric.facts.norm or norm))
    return signatures
