"""Search photos: the nearest images of each query in a folder, or in an index."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from levelfield.data import create, is_image
from levelfield.data.checks.readable import check_names
from levelfield.errors import BadInput
from levelfield.progress import SILENT, Progress
from levelfield.shipping.gallery import remembered
from levelfield.shipping.index.exact import FLOAT, Positions, Stored, nearest
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
    stored = Stored(remembered(model, paths, progress=progress), model.dim, FLOAT)
    rows = model.embed(photos, exact=False, progress=progress)
    return {
        str(query): [{"path": str(paths[position]), "similarity": round(cosine, 4)} for position, cosine in near]
        for query, near in _others(photos, paths, nearest(stored, rows, k + 1), k)
    }


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
    return {
        str(query): [
            {
                "path": str(index.paths[position]),
                "class": index.content.items[position].label,
                "similarity": round(cosine, 4),
                "same": None if index.threshold is None else cosine >= index.threshold,
                "exists": index.paths[position].is_file(),
            }
            for position, cosine in near
        ]
        for query, near in _others(photos, index.paths, index.search(rows, k + 1), k)
    }


def _others(
    queries: Sequence[Path], paths: Sequence[Path], nearest: tuple[Positions, NDArray[np.float64]], k: int
) -> Iterator[tuple[Path, list[tuple[int, float]]]]:
    """Each query with the positions and cosines of its k nearest images, without itself."""
    for query, positions, cosines in zip(queries, *nearest, strict=True):
        near = [(int(position), float(cosine)) for position, cosine in zip(positions, cosines, strict=True)]
        yield query, [each for each in near if each[0] >= 0 and not _is_same_file(paths[each[0]], query)][:k]


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
