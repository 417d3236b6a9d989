"""Protocol for trials of settings: scores come from validation classes; test classes are not used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levelfield.data.catalog import Catalog
from levelfield.data.protocols._registry import Fold, create, register
from levelfield.data.protocols.mlrc import mlrc
from levelfield.errors import BadInput, BadSpecification

_CLASS_DISJOINT = ("standard", "mlrc", "query-gallery")


@register("choosing", "For trials: a protocol's validation classes give the figure; its test classes take no part.")
def choosing(
    catalog: Catalog,
    *,
    validation: float = 0.0,
    of: Mapping[str, Any] | None = None,
    parts: int = 1,
    part: int = 0,
) -> list[Fold]:
    """of: the study's own protocol, `{name: standard}` by default. parts, part: instead of the last training classes,
    one of so many class-disjoint parts of them validates (Musgrave et al. 2020)."""
    settings = {key: value for key, value in (of or {"name": "standard"}).items() if key != "validation"}
    name = str(settings.pop("name", "standard"))
    if parts > 1:
        if name not in _CLASS_DISJOINT:
            raise BadSpecification(f"The protocol '{name}' has no class-disjoint folds to choose by: use --validation.")
        if not 0 <= part < parts:
            raise BadSpecification(f"part {part} of {parts} does not exist; they are counted from 0.")
        form = {"form": settings["form"]} if "form" in settings else {}
        whole = mlrc(catalog, folds=parts, **form)[part]
    else:
        whole = create(name, catalog, **settings)[0]
        if not len(whole.validation):  # neither the data nor the protocol says which classes validate
            if not validation:
                raise BadSpecification("The protocol 'choosing' needs `validation`: a share of the training classes.")
            whole = create(name, catalog, validation=validation, **settings)[0]
    if not len(whole.validation):
        raise BadInput(
            f"The protocol '{name}' leaves no class of '{catalog.name}' to validate: no trial can be judged."
        )
    return [Fold("choosing", whole.train, whole.validation, whole.validation, closed=whole.closed, trial=True)]
