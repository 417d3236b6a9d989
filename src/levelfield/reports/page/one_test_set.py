"""One test set of the page: search every method's embeddings, then look at images, mistakes, thresholds and regions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from levelfield.data.checks.leaks import Leaks
from levelfield.errors import LevelfieldError
from levelfield.evaluation.search.threads import torch_threads
from levelfield.progress import SILENT, Progress
from levelfield.randomness import numpy_stream
from levelfield.reports.embedding_map import embedding_maps, landmark_note
from levelfield.reports.page.content import Array, Data, smallest
from levelfield.reports.page.image_set import MAX_THUMBNAILS, ImageSet, thumbnails_of
from levelfield.reports.page.mistakes import by_class, duplicates, label_errors, leaks_of
from levelfield.reports.page.neighbour_lists import MOST_SEARCHED, EmbeddedRow, SearchResult, search
from levelfield.reports.page.regions import explain_pairs
from levelfield.reports.page.same_or_not import threshold_of

NOT_A_QUERY, NOT_SEARCHED = 2, 3
_ALL_LISTS = 60_000  # neighbour lists of all methods together: 10 methods of the demo, 3 MB
_MAX_QUERIES, _MIN_QUERIES = 2_000, 200  # of a larger set; with many methods fewer
_MAX_LISTED_IMAGES = 6_000  # images of a test set with a list for every query


@torch_threads()
def data_of_test_set(
    name: str,
    images: ImageSet,
    methods: Sequence[EmbeddedRow],
    *,
    leaks: Leaks | None = None,
    notes: Sequence[str] = (),
    progress: Progress = SILENT,
) -> Data:
    """Everything that the page shows about one test set. mistakes: images to check.

    thumbnails: sheets of small images as data URIs, row by row; `of`: the images that have one, None: all of them.
    """
    searched, left_out = _search_all(methods, images, progress)
    results = [result for _, result in searched]
    lists = _chosen_queries(results, images)
    wrong_labels, leaked = label_errors(results, images), leaks_of(leaks, images)
    wanted = [mistake["image"] for mistake in (*wrong_labels, *leaked)]
    pictures = _chosen_thumbnails(results, lists, images, wanted, MAX_THUMBNAILS)
    seen = thumbnails_of(images.paths, pictures, progress=progress)
    rows = {str(number): method.rows for number, (method, _) in enumerate(searched)}
    cosine = all(method.distance == "cosine" for method, _ in searched)
    stage = progress.stage("drawing maps", len(rows))
    maps = embedding_maps(rows, normalize=cosine, threads=torch.get_num_threads(), stage=stage).values()
    with torch_threads(1):  # rounding depends on their number
        regions = explain_pairs(searched, images, seen.lost)
    return {
        "name": name,
        "count": len(images),
        "classes": images.classes,
        "class_of": smallest(images.codes),
        "files": images.names,
        "groups": images.groups,
        "group_of": None if images.group_of is None else smallest(images.group_of),
        "query": None if images.asked is None else images.asked.astype(np.uint8),
        "gallery": None if images.asked is None else (~images.asked).astype(np.uint8),
        "lost": seen.lost,
        "thumbnails": seen.thumbnails,
        "notes": [*notes, *left_out, *_notes(images, lists, pictures, len(results))],
        "methods": [_embedded(*pair, images, lists, points) for pair, points in zip(searched, maps, strict=True)],
        "mistakes": {"labels": wrong_labels, "duplicates": duplicates(seen, images), "leaks": leaked},
        "why": regions,
    }


def _search_all(
    methods: Sequence[EmbeddedRow], images: ImageSet, progress: Progress
) -> tuple[list[tuple[EmbeddedRow, SearchResult]], list[str]]:
    """The methods that can be searched, in their order, and notes on the others."""
    searched: list[tuple[EmbeddedRow, SearchResult]] = []
    notes: list[str] = []
    stage = progress.stage("searching", len(methods))
    for method in methods:
        try:
            result = search(method.rows, images, distance=method.distance)
        except LevelfieldError as error:
            notes.append(f"{method.label} is not shown here: {error}")
        else:
            if result is not None:
                searched.append((method, result))
        stage.advance()
    return searched, notes


def _embedded(method: EmbeddedRow, result: SearchResult, images: ImageSet, lists: Array | None, points: Array) -> Data:
    """The embeddings of a row: neighbours, ranks, position on the map, confusions, threshold.

    right: 1 or 0; 2: not a query that counts; 3: not searched. first_right: rank of the first right image, 0: none.
    """
    first_right = np.zeros(len(images), np.int64)
    first_right[result.queries] = result.first_right
    right = np.full(len(images), NOT_A_QUERY, np.uint8)
    right[images.queries] = NOT_SEARCHED
    right[result.queries] = np.where(result.first_right > 0, result.first_right == 1, NOT_A_QUERY)
    shown = slice(None) if lists is None else np.searchsorted(result.queries, lists)
    similarity = result.similarity[shown].astype(np.float32)
    if method.distance == "cosine":
        similarity = np.rint((result.similarity[shown] + 1) / 2 * 65535).astype(np.uint16)
    return {
        "row": method.row,
        "queries": None if lists is None else smallest(lists),
        "k": result.neighbours.shape[1],
        "neighbours": smallest(result.neighbours[shown]),
        "similarity": similarity,
        "first_right": smallest(first_right),
        "right": right,
        "map": np.rint(points * 65535).astype(np.uint16),
        "found_by": smallest(np.bincount(result.neighbours.ravel(), minlength=len(images))),
        "classes": by_class(result, images),
        "threshold": threshold_of(result, method.rows, images, method.threshold),
        "distance": method.distance,
    }


def _notes(images: ImageSet, lists: Array | None, pictures: Array | None, methods: int) -> list[str]:
    notes, size = [], f"this test set has {len(images):,} images"
    if len(images.queries) > MOST_SEARCHED:
        notes.append(f"{MOST_SEARCHED:,} queries drawn at random were searched: {size}.")
    if lists is not None:
        order = "those that every method gets wrong first, then those where methods disagree"
        notes.append(f"Neighbours of {len(lists):,} chosen queries only ({order}): {size}, and {methods} methods.")
    if pictures is not None:
        notes.append(f"Thumbnails of {len(pictures):,} images only: {size}.")
    if methods and (note := landmark_note(len(images))):
        notes.append(note)
    return notes


def _chosen_queries(results: Sequence[SearchResult], images: ImageSet) -> Array | None:
    """The queries whose neighbours the page lists, ascending: of a large set, or with many methods, those that no
    method gets right, then those where methods disagree, then others at random; None: all."""
    if not results or (len(images) <= _MAX_LISTED_IMAGES and len(results[0].queries) * len(results) <= _ALL_LISTS):
        return None
    queries, most = results[0].queries, max(_MIN_QUERIES, min(_MAX_QUERIES, _ALL_LISTS // len(results)))
    wrong = sum((result.first_right > 1).astype(np.int64) for result in results)
    order = numpy_stream(0, "page", "chosen").permutation(len(queries))
    kind = np.where(wrong == len(results), 0, np.where(wrong > 0, 1, 2))[order]
    return np.sort(queries[order[np.argsort(kind, kind="stable")][:most]])


def _chosen_thumbnails(
    results: Sequence[SearchResult], lists: Array | None, images: ImageSet, wanted: Sequence[int], most: int
) -> Array | None:
    """Images with a thumbnail: `wanted`, queries with lists, then their neighbours, nearest first; None: all."""
    if len(images) <= most:
        return None
    queries = images.queries if lists is None else lists
    picked = dict.fromkeys([*wanted, *queries.tolist()])
    for rank in range(max((result.neighbours.shape[1] for result in results), default=0)):
        for result in results:
            if len(picked) < most and rank < result.neighbours.shape[1]:
                shown = np.isin(result.queries, queries)
                picked |= dict.fromkeys(result.neighbours[shown, rank].tolist())
    return np.sort(np.array(list(picked)[:most], np.int64))
