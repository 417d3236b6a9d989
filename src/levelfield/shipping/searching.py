"""Embed and search photos: the nearest images of each query in a folder or an index.

An image of a gallery that a model has embedded is not embedded again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from levelfield.data import create
from levelfield.data.catalog import file_digest
from levelfield.data.checks.readable import check_names, unreadable
from levelfield.data.images import images_below
from levelfield.embedder.devices import key_of
from levelfield.embedder.trunk.cache import FeatureCache
from levelfield.errors import BadInput
from levelfield.progress import SILENT, Progress
from levelfield.shipping.index.exact import FLOAT, Positions, Stored, nearest
from levelfield.shipping.onnx_model import OnnxModel
from levelfield.wording import first_few, plural

if TYPE_CHECKING:
    from levelfield.embedder import Ensemble, Model
    from levelfield.shipping.index.index import Index

_AT_ONCE = 4096  # images; at most these are lost if the process is killed

_log = logging.getLogger(__name__)

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
        for query, near in _others(photos, paths, partial(nearest, stored, rows), k)
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
        for query, near in _others(photos, index.paths, partial(index.search, rows), k)
    }


def _others(
    queries: Sequence[Path],
    paths: Sequence[Path],
    search: Callable[[int], tuple[Positions, NDArray[np.float64]]],
    k: int,
) -> Iterator[tuple[Path, list[tuple[int, float]]]]:
    """Each query with the positions and cosines of its k nearest images, without itself.

    search: from a number of candidates to their positions and cosines. Links may list an image several times: as many
    more candidates are needed.
    """
    files = [query.resolve() for query in queries]
    resolved = lru_cache(_AT_ONCE)(lambda position: paths[position].resolve())
    candidates, needed = 0, k + 1
    while candidates < needed:
        candidates = needed
        positions, cosines = search(candidates)
        itself = np.zeros(positions.shape, dtype=bool)
        for line, file in enumerate(files):
            itself[line] = [position >= 0 and resolved(position) == file for position in positions[line].tolist()]
        needed = max(needed, k + int(itself.sum(axis=1).max(initial=0)))
    for line, query in enumerate(queries):
        others = (positions[line] >= 0) & ~itself[line]
        yield query, list(zip(positions[line][others].tolist(), cosines[line][others].tolist(), strict=True))[:k]


def find_images(sources: Sequence[Path]) -> list[Path]:
    """Images below folders in a fixed order, of CSV files, and single image files; each once.

    Hidden folders are left out; a warning names a sub-folder that cannot be read.
    """
    return list(dict.fromkeys(path for source in sources for path in _images_of(source)))


def _images_of(source: Path) -> list[Path]:
    if source.is_file() and source.suffix.lower() == ".csv":
        return list(create(source).paths)
    if source.is_file():
        check_names([source])
        return [source]
    if not source.exists():
        raise BadInput(f"File or folder not found: {source}")
    # not a link to a file that is gone
    images = [path for path in images_below(source, skip_unreadable=True) if path.is_file()]
    if not images:
        raise BadInput(f"No images found under {source}.")
    check_names(images)
    return images


def remembered(
    model: Model | Ensemble | OnnxModel,
    paths: Sequence[Path],
    *,
    cache: Path | None = None,
    progress: Progress = SILENT,
) -> NDArray[np.float32]:
    """Unit rows (images, dim) of image files, like `model.embed(paths, exact=True)`.

    Rows are stored in the cache under the checksum of the model and of the content of each file: a changed or new file
    is embedded, a moved one is not. They take 4 bytes per number. `levelfield cache` lists and clears them.
    """
    # what besides the model affects the bits of its rows; of torch the store knows it
    packages = ("onnxruntime", "pillow", "numpy") if isinstance(model, OnnxModel) else ()
    versions = " ".join(f"{name}={version(name)}" for name in packages)
    store = FeatureCache(cache, computed_by=versions or None)
    there = next(path for path in (store.folder, *store.folder.absolute().parents) if path.exists())
    if not model.checksum or not os.access(there, os.W_OK):
        _log.info("The embeddings of the gallery are not stored: no checksum of the model, or a read-only cache.")
        return model.embed(list(paths), exact=True, progress=progress)
    parts = [paths[first : first + _AT_ONCE] for first in range(0, len(paths), _AT_ONCE)]
    rows = [_part(model, part, store, progress) for part in parts]
    return np.concatenate(rows) if rows else np.zeros((0, model.dim), dtype=np.float32)


def _part(
    model: Model | Ensemble | OnnxModel, paths: Sequence[Path], store: FeatureCache, progress: Progress
) -> NDArray[np.float32]:
    digests = [file_digest(path) for path in paths]
    key = f"embeddings of {model.checksum} {'cpu' if isinstance(model, OnnxModel) else key_of(model.device)}"
    absent = store.absent(key, digests)
    new = {digest: path for digest, path in zip(digests, paths, strict=True) if digest in absent}
    # all in one call: the store asks for a sixteenth at a time, and each call fills up a block
    rows = model.embed(list(new.values()), exact=True, progress=progress) if new else ()
    computed = dict(zip(new, rows, strict=True))

    def compute(positions: list[int]) -> tuple[np.ndarray, ...]:
        for position in positions:
            if digests[position] not in computed:  # cleared by another process meanwhile
                computed[digests[position]] = model.embed(paths[position], exact=True)[0]
        return (np.stack([computed[digests[position]] for position in positions]),)

    metadata = {name: str(model.about[name]) for name in ("method", "data") if name in model.about}
    about = f"embeddings of galleries ({', '.join(metadata.values())})" if metadata else "embeddings of galleries"
    [stored] = store.rows(key, digests, compute, description=about).arrays()
    return stored


def readable(paths: Sequence[Path], *, progress: Progress = SILENT) -> list[Path]:
    """The images that can be decoded; a warning names the others."""
    failures = unreadable(paths, progress=progress)
    if len(failures) == len(paths):
        raise BadInput(f"None of {plural(len(paths), 'image', 'images')} can be read. The first error: {failures[0]}")
    if failures:
        names = first_few([str(paths[position]) for position in failures])
        _log.warning("Skipped %s: %s.", plural(len(failures), "unreadable image", "unreadable images"), names)
    return [path for position, path in enumerate(paths) if position not in failures]
