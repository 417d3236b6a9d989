"""Registry of protocols, the definition of a fold, and the folds of a catalog by protocol name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelfield.data.catalog import Catalog
from levelfield.errors import BadInput, BadSpecification
from levelfield.registry import Registry
from levelfield.settings import accepted, check_settings, whole


@dataclass(frozen=True, eq=False)
class Fold:
    """Image indices (ascending) into the catalog.

    No class, and no group of classes, is in two of the three, unless `closed` is set: then the classes are the same.
    query, gallery: the two parts of `test`, if queries are searched in a gallery; None if every test image is searched
    among all the others. trial: the validation classes also give the figure, and no test class takes part.
    """

    name: str
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    query: np.ndarray | None = None
    gallery: np.ndarray | None = None
    closed: bool = False
    trial: bool = False


registry: Registry[list[Fold]] = Registry("protocol", "protocols", home="levelfield.data.protocols")
register = registry.register
"""Decorator: register a function from a `Catalog` to folds under a name, with its facts."""
names = registry.names
"""The names of all protocols."""
describe = registry.facts
"""The facts of a protocol, by its name."""


def create(name: str, catalog: Catalog, validation: float = 0.0, **settings: Any) -> list[Fold]:
    """The folds of protocol `name`, or of `my_protocols.py:function`.

    validation: share of the training classes used for validation.
    settings: the protocol's own settings, such as `form="rotating"` of mlrc.

    >>> from pathlib import Path
    >>> catalog = Catalog("eight", (Path("x"),) * 8, np.repeat(np.arange(4), 2), tuple("abcd"))
    >>> [fold] = create("standard", catalog)
    >>> fold.train.tolist(), fold.test.tolist()
    ([0, 1, 2, 3], [4, 5, 6, 7])
    """
    protocol = registry.get(name)
    check_settings(f"protocol '{name}'", settings, protocol)
    if not 0 <= validation < 1:
        raise BadSpecification(f"validation must be a share of the classes from 0 to below 1, not {validation}.")
    folds = protocol(catalog, validation=validation, **settings)
    if not isinstance(folds, list) or not folds or not all(isinstance(fold, Fold) for fold in folds):
        raise BadInput(f"The protocol '{name}' must return a list of one or more folds (levelfield.data.Fold).")
    for fold in folds:
        _refuse_overlap(name, fold, catalog)
    return folds


def fold_count(name: str, settings: Mapping[str, Any] | None = None) -> int:
    """The number of folds of a protocol, without reading any data: its setting `folds`, else one."""
    takes = accepted(registry.get(name)) or {}
    return whole("folds", {**takes, **(settings or {})}.get("folds", 1))


def _refuse_overlap(name: str, fold: Fold, catalog: Catalog) -> None:
    """Check the guarantees of `Fold`: a test class in the training part would make every score too optimistic."""
    parts = {"train": fold.train, "validation": fold.validation, "test": fold.test}
    units = catalog.labels if catalog.groups is None else catalog.groups[catalog.labels]
    for part, images in parts.items():
        if len(images) and not (images[0] >= 0 and images[-1] < len(catalog) and (np.diff(images) > 0).all()):
            raise BadInput(
                f"The protocol '{name}' must return the {part} images as ascending indices without duplicates."
            )
    pairs = [("train", "validation"), ("train", "test"), ("validation", "test")]
    for part, other in pairs[:2] if fold.trial else pairs:
        members = (parts[part], parts[other]) if fold.closed else (units[parts[part]], units[parts[other]])
        if len(np.intersect1d(*members)):
            what = "images" if fold.closed else "classes or groups of classes"
            raise BadInput(f"The protocol '{name}' puts the same {what} into {part} and {other} (fold '{fold.name}').")
