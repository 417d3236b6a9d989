"""The page of evaluated embeddings, with their images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from levelfield.progress import SILENT, Progress
from levelfield.reports.evaluation.array_files import read_image_paths
from levelfield.reports.evaluation.scores import Scores
from levelfield.reports.page import write
from levelfield.reports.page.of_arrays import Shown, images_of, page_of_arrays


def write_page(
    path: Path,
    rows: Sequence[Scores],
    *,
    images: Path | None = None,
    threshold: float | None = None,
    progress: Progress = SILENT,
) -> None:
    """Write the page.

    Args:
        path: of the HTML file.
        rows: the scores of the same images.
        images: file that lists the images, one path per row; a run knows its images.
        threshold: the least cosine of two images of the same class.
        progress: gets a stage for each part of the page.
    """
    embeddings = rows[0].embeddings
    gallery, queries = embeddings.gallery, len(embeddings.labels)
    labels = embeddings.labels.astype(str)
    if gallery is not None:
        labels = np.concatenate([labels, np.asarray(embeddings.gallery_labels).astype(str)])
    if images is not None:
        listed = read_image_paths(images, queries, 0 if gallery is None else len(gallery))
    else:
        others = [] if gallery is None else embeddings.gallery_paths or []
        listed = [Path(name) for name in [*(embeddings.paths or []), *others]]
    shown = []
    for scores in rows:
        own = scores.embeddings
        every = own.rows if gallery is None else np.concatenate([own.rows, gallery])
        label = ", ".join(filter(None, [scores.distance, f"dim {scores.dim}", own.refined]))
        at = threshold if scores.distance == "cosine" else None
        shown.append(Shown(label, every[:, : scores.dim], scores.result, scores.distance, at))
    pictured = images_of(listed, labels, None if gallery is None else queries)
    write.write_page(page_of_arrays(path.stem, pictured, shown, progress=progress), path)
