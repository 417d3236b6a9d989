"""The test images of a run in items.csv: path, class and, if there is a gallery, role."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.errors import BadSpecification
from levelfield.files.reading import MEGABYTE, damaged, read_text
from levelfield.files.writing import write_text
from levelfield.methods import Method
from levelfield.studies.runs.folder.files import ITEMS, check, of_a_run
from levelfield.studies.runs.inputs import RunInputs


@dataclass(frozen=True)
class Items:
    """One entry per test image, in the order of the stored embeddings. Without roles every image is a query."""

    paths: list[str]
    classes: np.ndarray
    roles: np.ndarray | None = None

    @classmethod
    def read(cls, folder: Path) -> Items:
        """The test images of a run folder."""
        path = folder / ITEMS
        with of_a_run():
            check(folder, ITEMS)
            table = io.StringIO(read_text(path, most=100 * MEGABYTE), newline="")
            try:
                paths, classes, *roles = map(list, zip(*list(csv.reader(table))[1:], strict=True))
            except (csv.Error, ValueError) as error:
                raise damaged(path, f"is not a table of test images: {error}") from error
        return cls(paths, np.array(classes), np.array(roles[0]) if roles else None)

    def write(self, folder: Path) -> None:
        table = io.StringIO()
        writer = csv.writer(table)
        columns: list[Any] = [self.paths, self.classes, *([] if self.roles is None else [self.roles])]
        writer.writerow(["path", "class", "role"][: len(columns)])
        writer.writerows(zip(*columns, strict=True))
        write_text(folder / ITEMS, table.getvalue())

    @property
    def queries(self) -> np.ndarray:
        """A mask of the queries."""
        return np.ones(len(self.paths), bool) if self.roles is None else self.roles == "query"

    def arrays(self, rows: np.ndarray, labels: np.ndarray | None = None) -> dict[str, Any]:
        """The arguments of `evaluate` for embeddings of these images. labels: integers instead of class names.

        With a gallery, a query without a positive counts as a miss; without one, such an image is not a query.

        >>> few = Items(["a", "b", "c"], np.array(["x", "x", "y"]), np.array(["query", "gallery", "gallery"]))
        >>> arrays = few.arrays(np.eye(3))
        >>> len(arrays["embeddings"]), len(arrays["gallery"]), arrays["lone"]
        (1, 2, 'miss')
        """
        labels = self.classes if labels is None else labels
        if self.roles is None:
            return {"embeddings": rows, "labels": labels}
        queries = self.queries
        gallery = {"gallery": rows[~queries], "gallery_labels": labels[~queries], "lone": "miss"}
        return {"embeddings": rows[queries], "labels": labels[queries], **gallery}


def refined(method: Method, rows: np.ndarray, queries: np.ndarray | None) -> np.ndarray:
    """The test embeddings after the method's refinement. A gallery is not refined."""
    if queries is None or queries.all():
        return method.refine(rows)
    refined_queries = method.refine(rows[queries], rows[~queries])
    if refined_queries.shape[1:] != rows.shape[1:]:
        raise BadSpecification(
            f"Refined queries have {refined_queries.shape[1]} dimensions, but the gallery has {rows.shape[1]}."
        )
    rows[queries] = refined_queries
    return rows


def test_items(inputs: RunInputs) -> Items:
    """The test images of a run."""
    catalog, fold = inputs.catalog, inputs.fold
    roles = None if fold.query is None else np.where(np.isin(fold.test, fold.query), "query", "gallery")
    names = np.array(catalog.class_names)[catalog.labels[fold.test]]
    return Items([str(catalog.paths[i]) for i in fold.test], names, roles)
