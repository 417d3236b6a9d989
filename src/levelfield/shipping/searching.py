"""Search photos: the nearest images of each query in a folder, or in an index."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from levelfield.data import create, is_image
from levelfield.data.checks.readable import check_names
from levelfield.errors import BadInput
from levelfield.progress import SILENT, Progress
from levelfield.shipping.gallery import remembered
from levelfield.shipping.index.index import Index
from levelfield.shipping.onnx_model import OnnxModel

if TYPE_CHECKING:
    from levelfield.embedder import Ensemble, Model

Neighbours = dict[str, list[dict[str, Any]]]
"""For each query its nearest images, nearest first: `path` and `similarity`; from an index also `class`, `same` (is the
similarity at least the threshold? None: no threshold) and `exists`."""


def search_folder(
    model: Model | Ensemble | OnnxModel,
    gallery: Path,
    queries: Sequence[Path],
    *,
    k: int = 5,
    progress: Progress = SILENT,
) -> Neighbours:
    """The k nearest images of each query below a folder (or in a CSV); an image is not its own neighbour."""
    paths, photos = find_images([gallery]), find_images(queries)
    rows = remembered(model, paths, progress=progress)
    similarity = model.embed(photos, exact=False, progress=progress) @ rows.T
    nearest: Neighbours = {}
    for query, scores in zip(photos, similarity, strict=True):
        itself = [i for i, path in enumerate(paths) if path.resolve() == query.resolve()]
        scores[itself] = -np.inf
        order = np.argsort(-scores, kind="stable")[: min(k, len(paths) - len(itself))]
        nearest[str(query)] = [{"path": str(paths[i]), "similarity": round(float(scores[i]), 4)} for i in order]
    return nearest


def search_index(
    index: Index,
    model: Model | Ensemble | OnnxModel,
    queries: Sequence[Path],
    *,
    k: int = 5,
    progress: Progress = SILENT,
) -> Neighbours:
    """The k nearest images of each query in an index. model: `index.model()`."""
    photos = find_images(queries)
    rows = model.embed(photos, exact=False, progress=progress)
    nearest: Neighbours = {}
    for query, positions, cosines in zip(photos, *index.search(rows, k + 1), strict=True):
        neighbours = [
            {
                "path": str(index.paths[position]),
                "class": index.content.items[position].label,
                "similarity": round(float(cosine), 4),
                "same": None if index.threshold is None else bool(cosine >= index.threshold),
                "exists": index.paths[position].is_file(),
            }
            for position, cosine in zip(positions, cosines, strict=True)
            if position >= 0 and not _is_same_file(index.paths[position], query)
        ]
        nearest[str(query)] = neighbours[:k]
    return nearest


def find_images(sources: Sequence[Path]) -> list[Path]:
    """Images below folders in a fixed order, of CSV files, and single image files; each once."""
    return list(dict.fromkeys(path for source in sources for path in _images_of(source)))


def _images_of(source: Path) -> list[Path]:
    if source.is_file() and source.suffix.lower() == ".csv":
        return list(create(source).paths)
    if source.is_file():
        check_names([source])
        return [source]
    if not source.exists():
        raise BadInput(f"File or folder not found: {source}")
    # os.walk skips folders that are unreadable or vanish meanwhile
    files = (Path(folder, name) for folder, _, names in os.walk(source) for name in names)
    images = sorted(path for path in files if is_image(path) and path.is_file())
    if not images:
        raise BadInput(f"No images found under {source}.")
    check_names(images)
    return images


def _is_same_file(path: Path, query: Path) -> bool:
    return path.name == query.name and path.resolve() == query.resolve()
