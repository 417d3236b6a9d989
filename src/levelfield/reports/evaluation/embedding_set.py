"""Embeddings to evaluate: the stored test embeddings of a run, or arrays from files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.errors import BadInput
from levelfield.methods.refine.choice import Refinement
from levelfield.progress import SILENT, Progress
from levelfield.reports.evaluation.array_files import read_array, read_labels
from levelfield.studies.runs.finished import (
    PARTS,
    embed_part,
    how_many_bits,
    how_many_models,
    how_refined,
    refiner,
    stored_test,
)


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
        rows, items = stored_test(run)
        queries = [path for path, is_query in zip(items.paths, items.queries, strict=True) if is_query]
        others = [path for path, is_query in zip(items.paths, items.queries, strict=True) if not is_query]
        return cls(
            items.arrays(rows),
            run,
            queries,
            others or queries,
            how_refined(run),
            how_many_models(run),
            how_many_bits(run),
        )

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
        arrays = {"labels": read_labels(labels), "embeddings": read_array(embeddings)}
        if gallery is not None:
            arrays["gallery"] = read_array(gallery)
        if gallery_labels is not None:
            arrays["gallery_labels"] = read_labels(gallery_labels)
        if query_ids is not None:
            arrays["query_ids"] = read_labels(query_ids)
        return cls(arrays)

    @property
    def rows(self) -> np.ndarray:
        """The embeddings of the queries, (queries, dim)."""
        rows: np.ndarray = self.arrays["embeddings"]
        return rows

    @property
    def labels(self) -> np.ndarray:
        labels: np.ndarray = self.arrays["labels"]
        return labels

    @property
    def gallery(self) -> np.ndarray | None:
        return self.arrays.get("gallery")

    @property
    def gallery_labels(self) -> np.ndarray:
        labels: np.ndarray = self.arrays.get("gallery_labels", self.labels)
        return labels

    def refine(self, refinement: Refinement, *, progress: Progress = SILENT) -> EmbeddingSet:
        """The same images after message passing among them, by the network of the run."""
        assert self.run is not None
        rows = refinement(refiner(self.run).objective, self.rows, self.gallery, progress=progress)
        return replace(self, arrays={**self.arrays, "embeddings": rows}, refined=refinement.text, bits=None)

    def other_classes(self, part: str, *, progress: Progress = SILENT) -> tuple[np.ndarray, np.ndarray]:
        """Embeddings and labels of the run's validation or training classes."""
        assert self.run is not None
        if part not in PARTS:
            raise BadInput(f"--choose-on {part}: must be {' or '.join(PARTS)}.")
        return embed_part(self.run, part, progress=progress)
