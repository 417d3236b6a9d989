"""All classes for training."""

from __future__ import annotations

from levelfield.data.catalog import Catalog
from levelfield.data.division import fold_of, undivided
from levelfield.data.protocols._registry import Fold, register
from levelfield.errors import BadInput


@register("all-classes", "All classes for training, none for test: for the final model.")
def all_classes(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    if catalog.num_classes < 2:
        raise BadInput(f"'{catalog.name}' has {catalog.num_classes} class; training needs at least 2.")
    return [fold_of("all-classes", catalog, undivided(catalog), [], validation)]
