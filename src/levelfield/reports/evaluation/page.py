"""The page of embeddings that no study made: `levelfield evaluate --images FILE --page out.html`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from levelfield.evaluation.statistics.intervals import ends
from levelfield.progress import SILENT, Progress
from levelfield.reports.evaluation.embedding_set import read_image_paths
from levelfield.reports.evaluation.scores import Scores
from levelfield.reports.page import write
from levelfield.reports.page.content import Array, Data, page_of, score
from levelfield.reports.page.image_set import ImageSet
from levelfield.reports.page.neighbour_lists import EmbeddedRow
from levelfield.reports.page.one_test_set import data_of_test_set
from levelfield.reports.page.standings import metrics_of
from levelfield.studies.specification.locations import within_root
from levelfield.table import Table
from levelfield.wording import plural


def write_page(
    path: Path,
    rows: Sequence[Scores],
    *,
    images: Path | None = None,
    threshold: float | None = None,
    progress: Progress = SILENT,
) -> None:
    """Write the page (HTML) of scores of the same images, in the given order.

    images: file that lists the images, one path per row; a run knows its images. threshold: the least cosine of two
    images of the same class. progress: gets a stage for each part of the page.
    """
    embeddings = rows[0].embeddings
    gallery, labels, queries = embeddings.gallery, embeddings.labels.astype(str), len(embeddings.labels)
    paths = embeddings.paths or []
    if gallery is not None:
        labels = np.concatenate([labels, np.asarray(embeddings.gallery_labels).astype(str)])
        paths = [*paths, *(embeddings.gallery_paths or [])]
    listed = [within_root(Path(name)) for name in paths]
    if images is not None:
        listed = read_image_paths(images, queries, 0 if gallery is None else len(gallery))
    shown = images_of(listed, labels, None if gallery is None else queries)
    methods = []
    for number, scores in enumerate(rows):
        vectors = scores.embeddings.rows
        vectors = vectors if gallery is None else np.concatenate([vectors, gallery])
        chosen = threshold if scores.distance == "cosine" else None
        row = EmbeddedRow(number, _label(scores), vectors[:, : scores.dim], distance=scores.distance, threshold=chosen)
        methods.append(row)
    write.write_page(_page(path.stem, shown, rows, methods, progress), path)


def images_of(paths: Sequence[Path], labels: Array, queries: int | None = None) -> ImageSet:
    """The images of rows with these labels. queries: the number of queries, which come first; None: all are."""
    classes, codes = np.unique(labels.astype(str), return_inverse=True)
    asked = None if queries is None else np.arange(len(paths)) < queries
    return ImageSet(list(paths), [str(name) for name in classes], codes, asked)


def _page(
    name: str, images: ImageSet, shown: Sequence[Scores], methods: Sequence[EmbeddedRow], progress: Progress
) -> Data:
    test = data_of_test_set(name, images, methods, progress=progress)
    lost, cautions = test["lost"], []
    if lost:
        count = plural(len(lost), "image is", "images are")
        cautions = [f"{count} missing or unreadable, such as {test['files'][lost[0]]}."]
    positions = {method["row"]: number for number, method in enumerate(test["methods"])}
    first = next(iter(shown[0].result))
    best = max(range(len(shown)), key=lambda number: shown[number].result[first])
    signatures = [
        [_label(scores), metric, str(scores.result.signature(metric))] for scores in shown for metric in scores.result
    ]
    return {
        **page_of(name, [test]),
        "about": f"{plural(len(images), 'image', 'images')} of {plural(len(images.classes), 'class', 'classes')}",
        "answer": [_answer(shown[best], first)],
        "cautions": cautions,
        "best": best,
        "metrics": metrics_of(shown[0].result),
        "rows": [_row(scores, positions.get(number)) for number, scores in enumerate(shown)],
        "comparison_note": "Scores of one set of images; no test between them.",
        "tables": [Table(["row", "metric", "definition"], signatures, "Signatures", ["How each score was computed."])],
    }


def _label(scores: Scores) -> str:
    return ", ".join(filter(None, [scores.distance, f"dim {scores.dim}", scores.embeddings.refined]))


def _row(scores: Scores, embedded: int | None) -> Data:
    intervals = scores.result.intervals
    cells = {metric: score(value, *ends(intervals.get(metric)), None) for metric, value in scores.result.items()}
    unknown = dict.fromkeys(("seconds", "images_seen", "peak_bytes", "passes"))
    known = {"label": _label(scores), "trained": False, "seeds": 1, "dim": scores.dim, "cells": cells, "test": 0}
    none = {"colour": 0, "method": "", "group": "", "deviations": [], "run": ""}
    return {**known, **none, **unknown, "embedded": embedded}


def _answer(scores: Scores, metric: str) -> str:
    low, high = ends(scores.result.intervals.get(metric))
    within = f" (95 % {low:.3f}-{high:.3f})" if np.isfinite([low, high]).all() else ""
    return f"{_label(scores)}: {metric} {scores.result[metric]:.3f}{within}."
