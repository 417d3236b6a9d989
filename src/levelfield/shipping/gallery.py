"""Embeddings of a gallery, remembered: an image that a model has embedded is not embedded again."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from levelfield.data.catalog import file_digest
from levelfield.data.checks.readable import unreadable
from levelfield.embedder.devices import key_of
from levelfield.embedder.trunk.cache import FeatureCache
from levelfield.errors import BadInput
from levelfield.progress import SILENT, Progress
from levelfield.shipping.onnx_model import OnnxModel
from levelfield.wording import first_few, plural

if TYPE_CHECKING:
    from levelfield.embedder import Ensemble, Model

_AT_ONCE = 4096  # images; at most these are lost if the process is killed

_log = logging.getLogger(__name__)


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
    store = FeatureCache(cache, computed_by=_computed_by(model))
    if not model.checksum or not _can_write(store.folder):
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
    new = {digest: index for index, digest in enumerate(digests) if digest in absent}
    # all in one call: the store asks for a sixteenth at a time, and each call fills up a block
    computed = model.embed([paths[index] for index in new.values()], exact=True, progress=progress) if new else None
    known = {} if computed is None else dict(zip(new, computed, strict=True))

    def compute(indices: list[int]) -> tuple[np.ndarray, ...]:
        gone = [index for index in indices if digests[index] not in known]  # cleared by another process meanwhile
        if gone:
            again = model.embed([paths[index] for index in gone], exact=True)
            known.update(zip([digests[index] for index in gone], again, strict=True))
        return (np.stack([known[digests[index]] for index in indices]),)

    metadata = {name: str(model.about[name]) for name in ("method", "data") if name in model.about}
    about = f"embeddings of galleries ({', '.join(metadata.values())})" if metadata else "embeddings of galleries"
    [rows] = store.rows(key, digests, compute, description=about).arrays()
    return rows


def readable(paths: Sequence[Path], *, progress: Progress = SILENT) -> list[Path]:
    """The images that can be decoded; a warning names the others."""
    failures = unreadable(paths, progress=progress)
    if len(failures) == len(paths):
        raise BadInput(f"None of {plural(len(paths), 'image', 'images')} can be read. The first error: {failures[0]}")
    if failures:
        names = first_few([str(paths[position]) for position in failures])
        _log.warning("Skipped %s: %s.", plural(len(failures), "unreadable image", "unreadable images"), names)
    return [path for position, path in enumerate(paths) if position not in failures]


def _computed_by(model: Model | Ensemble | OnnxModel) -> str | None:
    """What besides the model affects the bits of its rows; None for torch, whose store knows it."""
    if not isinstance(model, OnnxModel):
        return None
    return " ".join(f"{name}={version(name)}" for name in ("onnxruntime", "pillow", "numpy"))


def _can_write(folder: Path) -> bool:
    """Whether files can be created in a folder, or the folder itself."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return os.access(there, os.W_OK)
