"""Embeddings to evaluate: the stored test embeddings of a run, or arrays from files. Nothing is ever unpickled."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.errors import BadInput
from levelfield.files import arrays
from levelfield.files.reading import MEGABYTE, read_text
from levelfield.files.writing import expanded
from levelfield.methods.refine.passing import Refinement
from levelfield.progress import SILENT, Progress
from levelfield.studies.runs import finished

_MAX_TEXT_BYTES = 1_000 * MEGABYTE


@dataclass(frozen=True, eq=False)
class EmbeddingSet:
    """Test embeddings, their labels and their images; `arrays` are arguments of `levelfield.evaluate`."""

    arrays: dict[str, Any]
    run: Path | None = None
    paths: list[str] | None = None
    gallery_paths: list[str] | None = None
    refined: str = ""
    models: int = 1
    bits: int | None = None  # per dimension, if the run declares it

    @classmethod
    def of_run(cls, run: Path) -> EmbeddingSet:
        """The stored test embeddings of a finished run."""
        rows, items = finished.stored_test(run)
        queries = [path for path, is_query in zip(items.paths, items.queries, strict=True) if is_query]
        others = [path for path, is_query in zip(items.paths, items.queries, strict=True) if not is_query]
        facts = finished.how_refined(run), finished.how_many_models(run), finished.how_many_bits(run)
        return cls(items.arrays(rows), run, queries, others or queries, *facts)

    @classmethod
    def of_files(
        cls,
        embeddings: Path,
        labels: Path,
        *,
        gallery: Path | None = None,
        gallery_labels: Path | None = None,
        query_ids: Path | None = None,
    ) -> EmbeddingSet:
        """Arrays (.npy), which stay on disk, and labels (.npy, .txt, .csv)."""
        rows = {"embeddings": embeddings, "gallery": gallery}
        lists = {"labels": labels, "gallery_labels": gallery_labels, "query_ids": query_ids}
        contents = {name: read_labels(path) for name, path in lists.items() if path is not None}
        return cls(contents | {name: read_array(path) for name, path in rows.items() if path is not None})

    @property
    def rows(self) -> np.ndarray:
        """The embeddings of the queries, (queries, dim)."""
        return np.asarray(self.arrays["embeddings"])

    @property
    def labels(self) -> np.ndarray:
        return np.asarray(self.arrays["labels"])

    @property
    def gallery(self) -> np.ndarray | None:
        return self.arrays.get("gallery")

    @property
    def gallery_labels(self) -> np.ndarray:
        return np.asarray(self.arrays.get("gallery_labels", self.labels))

    def refine(self, refinement: Refinement, *, progress: Progress = SILENT) -> EmbeddingSet:
        """The same images after message passing among them, by the network of the run."""
        assert self.run is not None
        rows = refinement(finished.refiner(self.run).objective, self.rows, self.gallery, progress=progress)
        return replace(self, arrays={**self.arrays, "embeddings": rows}, refined=refinement.text, bits=None)


def read_array(path: Path) -> np.ndarray:
    """The array of a .npy file, memory-mapped, or the only array of a .npz file."""
    if not path.exists():
        raise BadInput(f"File not found: {path}")
    if path.suffix.lower() != ".npz":
        return arrays.read_array(path, kinds=arrays.PLAIN)
    contents = arrays.read_arrays(path, kinds=arrays.PLAIN)
    if len(contents) != 1:
        raise BadInput(
            f"{path} holds {len(contents)} arrays ({', '.join(contents)}) instead of one. Save one array alone: "
            "np.save('e.npy', array)."
        )
    return next(iter(contents.values()))


def read_labels(path: Path) -> np.ndarray:
    """Labels of a .npy file, of a text file with one label per line, or of a CSV's column `label` or `class`.

    A CSV with one column needs no header. If all labels are integers, they are read as integers.
    """
    if path.suffix.lower() not in (".csv", ".txt"):
        return read_array(path)
    texts = [text.strip() for text in _column(path, ("label", "class"))]
    if not texts or "" in texts:
        what = "has no labels" if not texts else f"has no label in row {texts.index('')}"
        raise BadInput(f"{path} {what}: give one label per embedding.")
    labels = np.array(texts)
    try:
        return labels.astype(np.int64)
    except (ValueError, OverflowError):
        return labels


def read_image_paths(path: Path, queries: int, gallery: int) -> list[Path]:
    """The paths that a file lists, one for each embedding and then one for each row of the gallery.

    A text file has one path per line; a CSV has a column `path`, `image` or `file`, or only one column. Relative paths
    are relative to the file, or to the current folder.
    """
    listed = _column(expanded(path), ("path", "image", "file"))
    if len(listed) != queries + gallery:
        needed = f"{queries:,} embeddings" + (f" and {gallery:,} gallery rows" if gallery else "")
        raise BadInput(f"{path} lists {len(listed):,} images for {needed}: one path per row is needed.")
    home = path.parent if (path.parent / listed[0]).exists() else Path()
    return [home / name for name in listed]


def _column(path: Path, names: tuple[str, ...]) -> list[str]:
    """The lines of a text file, or one column of a CSV: the one with one of these names, or the only one."""
    if not path.exists():
        raise BadInput(f"File not found: {path}")
    text = read_text(path, most=_MAX_TEXT_BYTES).removeprefix("\ufeff")
    if path.suffix.lower() != ".csv":
        return [line.removesuffix("\n").removesuffix("\r") for line in io.StringIO(text)]
    try:
        lines = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise BadInput(f"Cannot read {path}: {error}") from error
    heading = [field.strip().lower() for field in lines[0]] if lines else []
    named = [number for number, field in enumerate(heading) if field in names]
    if not named and len(heading) > 1:
        choice = f"{', '.join(names[:-1])} or {names[-1]}"
        raise BadInput(f"{path} has the columns {', '.join(heading)}: one of them must be called {choice}.")
    column = named[0] if named else 0
    return [line[column] if column < len(line) else "" for line in (lines[1:] if named else lines)]
