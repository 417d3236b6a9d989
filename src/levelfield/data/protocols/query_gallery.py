"""Queries that are searched in a separate gallery."""

from __future__ import annotations

from dataclasses import replace

from levelfield.data.catalog import Catalog
from levelfield.data.protocols._registry import Fold, register
from levelfield.data.protocols.standard import standard
from levelfield.errors import BadInput


@register(
    "query-gallery",
    "Like standard, for data with query and gallery images (In-Shop): queries are searched in the gallery only.",
)
def query_gallery(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    [fold] = standard(catalog, validation=validation)
    if fold.query is None:
        raise BadInput(
            f"The test images of '{catalog.name}' are not all marked as query or gallery, which the "
            "protocol 'query-gallery' needs: see the column `role` of a CSV file."
        )
    return [replace(fold, name="query-gallery")]
