"""The test images of a run as the page needs them: where they are now, their classes, groups and roles."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
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


@trusting()
def image_set(items: Items, folder: Path) -> ImageSet:
    """The test images of the run in `folder`, at their current place, with their groups where the data has them.

    If the study's data is gone or has changed, the paths are those of the run.
    """
    classes, codes = np.unique(items.classes, return_inverse=True)
    names = [str(name) for name in classes]
    asked = None if items.roles is None else items.queries
    stored = ImageSet([Path(path) for path in items.paths], names, codes, asked)
    try:
        spec = spec_at_its_place(folder, spec_of(folder, trained=False))
        inputs = inputs_for(spec, None, "cpu")
        catalog, test = inputs.catalog, inputs.fold.test
    except LevelfieldError:  # moved, deleted or not trusted: missing files are counted
        return stored
    paths = [catalog.paths[i] for i in test]
    same = [path.name for path in paths] == [path.name for path in stored.paths]
    if not same or [catalog.class_names[catalog.labels[i]] for i in test] != [names[code] for code in codes]:
        return stored
    if catalog.groups is None:
        return replace(stored, paths=paths)
    groups = catalog.groups[catalog.labels[test]]
    _, first, group_of = np.unique(groups, return_index=True, return_inverse=True)
    return replace(stored, paths=paths, groups=[f"group of {names[codes[k]]}" for k in first], group_of=group_of)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"
