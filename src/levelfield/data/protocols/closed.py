"""The same classes for training and test."""

from __future__ import annotations

import numpy as np

from levelfield.data.catalog import Catalog
from levelfield.data.division import late, with_roles
from levelfield.data.protocols._registry import Fold, register
from levelfield.errors import BadInput, BadSpecification


@register(
    "closed",
    "The same classes for training and test, by the official split of the images (ImageNet in zheng2021); "
    "optionally, a share of the training images of each class for validation.",
)
def closed(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    parts = catalog.parts
    if parts is None:
        raise BadInput(
            f"The protocol 'closed' needs a split of the images of each class, but '{catalog.name}' has "
            "none: see the column `split` of a CSV file."
        )
    train, test = np.flatnonzero(parts == "train"), np.flatnonzero(parts == "test")
    if not len(test) or not np.isin(catalog.labels[test], catalog.labels[train]).all():
        raise BadInput(
            f"Some test classes of '{catalog.name}' are missing from the training split; the protocol 'closed' "
            "needs the same classes in both. For unseen test classes, use the protocol 'standard'."
        )
    if np.bincount(catalog.labels[test]).max() < 2:
        raise BadInput(f"No class of '{catalog.name}' has two test images, so no query has a positive.")
    validation_images = np.flatnonzero(parts == "validation")
    if validation and len(validation_images):
        raise BadSpecification(f"'{catalog.name}' already defines its validation images: remove `validation`.")
    if validation:
        held_back = late(catalog.labels[train], validation)
        train, validation_images = train[~held_back], train[held_back]
    return [with_roles(catalog, Fold("closed", train, validation_images, test, closed=True))]
