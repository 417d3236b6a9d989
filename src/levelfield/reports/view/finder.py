"""Exact neighbours among the stored test embeddings of runs, of an image by its number or of any picture."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from levelfield.embedder.devices import requested
from levelfield.errors import BadInput
from levelfield.studies.runs.finished import how_refined, stored_test

if TYPE_CHECKING:
    from PIL import Image

    from levelfield.embedder.ensemble import Ensemble
    from levelfield.embedder.model import Model

_MODELS, _TABLES = 3, 30  # kept in memory; the rows of a table stay on disk
_BLOCK = 4096  # rows at a time

Neighbours: TypeAlias = tuple[list[int], list[float]]


@dataclass(frozen=True, eq=False)
class Within:
    """What is searched: the stored embeddings of a run, those of the gallery only (None: all)."""

    run: Path
    gallery: np.ndarray | None = None
    distance: str = "cosine"


class Finder:
    """Searches runs. Models and rows are read when they are first needed; one picture at a time is embedded."""

    def __init__(self) -> None:
        self._tables = lru_cache(_TABLES)(_Table)
        self._models = lru_cache(_MODELS)(partial(_model, device=requested()))
        self._turn = threading.Lock()

    def of_image(self, within: Within, number: int, k: int) -> Neighbours:
        """The k nearest images to a test image, itself excluded."""
        table = self._tables(within.run)
        return table.nearest(table.row(number), k, within, left_out=number)

    def of_picture(self, within: Within, image: Image.Image, k: int) -> Neighbours:
        """The k nearest images to any picture, embedded by the run's model."""
        with self._turn:
            row = self._models(within.run).embed(image, normalize=False, exact=False)[0]
        return self._tables(within.run).nearest(row, k, within)


class _Table:
    """The stored rows of a run, memory-mapped, and their lengths."""

    def __init__(self, run: Path) -> None:
        self.rows, _ = stored_test(run)
        self.lengths = np.concatenate([_lengths(part) for part in self._parts()])

    def row(self, number: int) -> np.ndarray:
        if number >= len(self.rows):
            raise BadInput(f"There is no image {number}: the run has embeddings of {len(self.rows):,}.")
        row: np.ndarray = self.rows[number]
        return row

    def nearest(self, row: np.ndarray, k: int, within: Within, *, left_out: int | None = None) -> Neighbours:
        """Positions and similarities in float64, nearest first; equal ones in their order. Memory: O(images)."""
        asked = row.astype(np.float64)
        near = np.concatenate([_similarities(part, asked, within.distance) for part in self._parts()])
        if within.distance == "cosine":
            near /= np.maximum(self.lengths * _lengths(asked[None]), np.finfo(np.float64).tiny)
        allowed = np.ones(len(near), bool) if within.gallery is None else within.gallery.copy()
        if left_out is not None:
            allowed[left_out] = False
        positions = np.flatnonzero(allowed)
        chosen = positions[np.argsort(-near[positions], kind="stable")[:k]]
        return chosen.tolist(), near[chosen].tolist()

    def _parts(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self.rows), _BLOCK):
            yield self.rows[start : start + _BLOCK].astype(np.float64)


def _similarities(rows: np.ndarray, asked: np.ndarray, distance: str) -> np.ndarray:
    """Larger is nearer, as in `evaluation.search.dense`; the inner product for "cosine"."""
    if distance == "hamming":
        similarities: np.ndarray = -((rows > 0) != (asked > 0)).sum(axis=1).astype(np.float64)
    elif distance == "euclidean":
        similarities = -_lengths(rows - asked)
    else:  # unlike those of a matrix product, the values of equal rows are equal wherever they are
        similarities = np.einsum("ij,j->i", rows, asked)
    return similarities


def _lengths(rows: np.ndarray) -> np.ndarray:
    lengths: np.ndarray = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return lengths


def _model(run: Path, *, device: str) -> Model | Ensemble:
    from levelfield.embedder import load

    if refined := how_refined(run):
        raise BadInput(
            f"This method refines its embeddings at test time ({refined}), which its stored model cannot repeat "
            "for one image. Choose another method."
        )
    return load(run, device=device)
