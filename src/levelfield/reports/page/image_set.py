"""The test images of a run as the page needs them: where they are now, their classes, groups and roles."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from levelfield.errors import LevelfieldError
from levelfield.evaluation.inputs import Inputs, check_inputs
from levelfield.reports.page.content import Array
from levelfield.studies.runs.folder.items import Items
from levelfield.studies.runs.folder.store import spec_at_its_place
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.joined.members import spec_of
from levelfield.trust import trusting

_LONGEST = 80  # characters of a file's name


@dataclass(frozen=True, eq=False)
class ImageSet:
    """paths: (images,); codes: the class of each image, by its place in `classes`; asked: whether it is a query."""

    paths: list[Path]
    classes: list[str]
    codes: Array
    asked: Array | None = None
    groups: list[str] | None = None
    group_of: Array | None = None

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def queries(self) -> Array:
        """The queries; without roles all images."""
        return np.arange(len(self)) if self.asked is None else np.flatnonzero(self.asked)

    @property
    def gallery(self) -> Array:
        """The images that are searched."""
        return np.arange(len(self)) if self.asked is None else np.flatnonzero(~self.asked)

    def inputs(self, rows: Array, queries: Array) -> Inputs:
        """Inputs of a search for these queries in the gallery, by embeddings (images, dim) of all images."""
        gallery = self.gallery
        if len(gallery) == len(rows) and np.array_equal(queries, gallery):
            return check_inputs(rows, self.codes)
        positions = np.full(len(rows), -1)
        positions[gallery] = np.arange(len(gallery))
        return check_inputs(
            rows[queries],
            self.codes[queries],
            gallery=rows if len(gallery) == len(rows) else rows[gallery],
            gallery_labels=self.codes[gallery],
            query_ids=positions[queries],
        )

    @property
    def names(self) -> list[str]:
        """Names of the files, below the folder that holds all of them."""
        home = os.path.commonpath([path.parent for path in self.paths]) if self.paths else ""
        return [_short(os.path.relpath(path, home) if home else path.name) for path in self.paths]


def image_set(items: Items, folder: Path) -> ImageSet:
    """The test images of the run in `folder`, at their current place, with their groups where the data has them."""
    classes, codes = np.unique(items.classes, return_inverse=True)
    names = [str(name) for name in classes]
    asked = None if items.roles is None else items.queries
    plain = ImageSet([Path(path) for path in items.paths], names, codes, asked)
    current = _from_the_catalog(items, folder)
    if current is None:
        return plain
    paths, groups = current
    if groups is None:
        return ImageSet(paths, names, codes, asked)
    _, first, group_of = np.unique(groups, return_index=True, return_inverse=True)
    return ImageSet(paths, names, codes, asked, [f"group of {names[codes[k]]}" for k in first], group_of)


@trusting()
def _from_the_catalog(items: Items, folder: Path) -> tuple[list[Path], Array | None] | None:
    """Paths and groups of the test images, from the study's data; None if it is gone or has changed."""
    try:
        spec = spec_at_its_place(folder, spec_of(folder, trained=False))
        inputs = inputs_for(spec, None, "cpu")
        catalog, test = inputs.catalog, inputs.fold.test
    except LevelfieldError:  # moved, deleted or not trusted: the paths of the run are used, and missing files counted
        return None
    paths = [catalog.paths[i] for i in test]
    same = [path.name for path in paths] == [os.path.basename(path) for path in items.paths]
    classes = [catalog.class_names[catalog.labels[i]] for i in test]
    if not same or classes != [str(name) for name in items.classes]:
        return None
    return paths, None if catalog.groups is None else catalog.groups[catalog.labels[test]]


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"
