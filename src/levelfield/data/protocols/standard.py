"""The official split, or the first half of the classes for training and the second for test."""

from __future__ import annotations

from levelfield.data.catalog import Catalog
from levelfield.data.division import fold_of, given_validation, halves, with_roles
from levelfield.data.protocols._registry import Fold, register
from levelfield.errors import BadSpecification


@register(
    "standard",
    "The official split; without one, the first half of the classes for training and the second half for test. "
    "Optionally, the last training classes for validation.",
)
def standard(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    train, test = halves(catalog, "standard")
    validation_classes = given_validation(catalog)
    if validation_classes and validation:
        raise BadSpecification(f"'{catalog.name}' already defines its validation classes: remove `validation`.")
    return [with_roles(catalog, fold_of("standard", catalog, train, test, validation, validation_classes))]
