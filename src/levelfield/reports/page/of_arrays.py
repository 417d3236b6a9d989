"""The page of embeddings that no study made: `levelfield evaluate --images FILE --page out.html`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import levelfield
from levelfield.evaluation import Evaluation, describe, parse
from levelfield.progress import SILENT, Progress
from levelfield.reports.page.content import Array, Cell, Metric, Page, Row
from levelfield.reports.page.image_set import ImageSet
from levelfield.reports.page.looking import Method, look
from levelfield.table import Table
from levelfield.wording import plural


@dataclass(frozen=True, eq=False)
class Shown:
    """Embeddings (images, dim) of all images, queries first, and their evaluation under one distance."""

    label: str
    rows: Array
    result: Evaluation
    distance: str
    threshold: float | None = None  # chosen on validation classes


def images_of(paths: Sequence[Path], labels: Array, queries: int | None = None) -> ImageSet:
    """The images of rows with these labels. queries: the number of queries, which come first; None: all are."""
    classes, codes = np.unique(labels.astype(str), return_inverse=True)
    asked = None if queries is None else np.arange(len(paths)) < queries
    return ImageSet(list(paths), [str(name) for name in classes], codes, asked)


def page_of_arrays(name: str, images: ImageSet, shown: Sequence[Shown], *, progress: Progress = SILENT) -> Page:
    """The page of one or several sets of embeddings of the same images, in the given order."""
    metrics = [Metric(one, parse(one).kind != "geometry", describe(one).text) for one in shown[0].result]
    methods = [
        Method(number, one.label, one.rows, distance=one.distance, threshold=one.threshold)
        for number, one in enumerate(shown)
    ]
    test = look(name, images, methods, progress=progress)
    lost = plural(len(test.lost), "image is", "images are")
    positions = {method.row: number for number, method in enumerate(test.methods)}
    first = metrics[0].name
    best = max(range(len(shown)), key=lambda number: shown[number].result[first])
    rows = [replace(_row(one), embedded=positions.get(number)) for number, one in enumerate(shown)]
    signatures = [[one.label, metric, str(one.result.signature(metric))] for one in shown for metric in one.result]
    return Page(
        levelfield=levelfield.__version__,
        study=name,
        about=f"{plural(len(images), 'image', 'images')} of {plural(len(images.classes), 'class', 'classes')}",
        answer=[_answer(shown[best], rows[best].cells[first], first)],
        cautions=[f"{lost} missing or unreadable, such as {test.files[test.lost[0]]}."] if test.lost else [],
        best=best,
        metrics=metrics,
        rows=rows,
        comparisons=[],
        comparison_note="Scores of one set of images; no test between them.",
        tables=[Table(["row", "metric", "definition"], signatures, "Signatures", ["How each score was computed."])],
        curves=[],
        missing=[],
        tests=[test],
    )


def _row(one: Shown) -> Row:
    cells = {}
    for metric in one.result:
        interval = one.result.intervals.get(metric)
        low, high = (None, None) if interval is None else (interval.low, interval.high)
        cells[metric] = Cell(one.result[metric], low, high, None)
    dim = next(iter(one.result.signatures.values())).representation.dim
    unknown = dict.fromkeys(("seconds", "images_seen", "peak_bytes", "passes"))
    return Row(one.label, 0, "", False, 1, dim, cells, **unknown, group="", deviations=[], test=0, run="")


def _answer(one: Shown, cell: Cell, metric: str) -> str:
    known = cell.low is not None and cell.high is not None and np.isfinite([cell.low, cell.high]).all()
    within = f" (95 % {cell.low:.3f}-{cell.high:.3f})" if known else ""
    return f"{one.label}: {metric} {cell.mean:.3f}{within}."
