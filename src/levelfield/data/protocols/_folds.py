"""Shared helpers of protocols: images of a fold from its classes, with queries and gallery."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from levelfield.data.catalog import Catalog
from levelfield.data.division import nearest_boundary
from levelfield.data.protocols._registry import Fold
from levelfield.errors import BadInput


def with_roles(catalog: Catalog, fold: Fold) -> Fold:
    """Query and gallery images of the test part, if each of its images has one of these roles."""
    if catalog.roles is None or not len(fold.test):
        return fold
    roles = np.array(catalog.roles)[fold.test]
    query, gallery = fold.test[roles == "query"], fold.test[roles == "gallery"]
    if not len(query) or not len(gallery) or len(query) + len(gallery) < len(fold.test):
        return fold
    if not np.isin(catalog.labels[query], catalog.labels[gallery]).any():
        raise BadInput(f"No query of '{catalog.name}' has a positive in the gallery.")
    return replace(fold, query=query, gallery=gallery)


def fold_of(
    name: str,
    catalog: Catalog,
    train: list[np.ndarray],
    test: list[np.ndarray],
    validation: float,
    validating: list[np.ndarray] | None = None,
) -> Fold:
    """Create a fold. `validating`: the validation classes; default: the last share `validation` of the training
    classes."""
    validating = validating or []
    if validation > 0:
        classes = sum(len(unit) for unit in train)
        if len(train) < 2:
            raise BadInput(
                f"The training half of '{catalog.name}' is one group of classes: none is left for validation."
            )
        # At least two classes: with one, every neighbour is correct.
        cut = nearest_boundary(train, classes - max(2, round(validation * classes)))
        train, validating = train[:cut], train[cut:]
    fold = Fold(name, _images(catalog, train), _images(catalog, validating), _images(catalog, test))
    if len(np.unique(catalog.labels[fold.train])) < 2:
        raise BadInput(f"'{catalog.name}' leaves fewer than 2 classes to train; use more classes or less validation.")
    for part, units in (("validation", validating), ("test", test)):
        if units and catalog.class_sizes[np.concatenate(units)].max() < 2:
            raise BadInput(
                f"No {part} class of '{catalog.name}' has two images, so no query has a positive: "
                "add images to these classes."
            )
    return fold


def _images(catalog: Catalog, units: list[np.ndarray]) -> np.ndarray:
    if not units:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(np.isin(catalog.labels, np.concatenate(units)))
