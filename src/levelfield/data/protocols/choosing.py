"""Protocol for trials of settings: scores come from validation classes; test classes are not used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levelfield.data.catalog import Catalog
from levelfield.data.protocols._registry import Fold, create, register
from levelfield.data.protocols.standard import mlrc
from levelfield.errors import BadInput, BadSpecification

_CLASS_DISJOINT = ("standard", "mlrc", "query-gallery")


@register("choosing", "For trials: scores come from a protocol's validation classes; its test classes are not used.")
def choosing(
    catalog: Catalog,
    *,
    validation: float = 0.0,
    of: Mapping[str, Any] | None = None,
    parts: int = 1,
    part: int = 0,
) -> list[Fold]:
    """of: the study's own protocol, `{name: standard}` by default. parts, part: validate on class-disjoint part `part`
    of `parts` of the training classes instead of the last ones (Musgrave et al. 2020)."""
    settings = {key: value for key, value in (of or {"name": "standard"}).items() if key != "validation"}
    name = str(settings.pop("name", "standard"))
    if parts > 1:
        if name not in _CLASS_DISJOINT:
            raise BadSpecification(
                f"The protocol '{name}' has no class-disjoint folds for trials; {', '.join(_CLASS_DISJOINT)} have. "
                "Use another protocol, or one fold and --validation."
            )
        if not 0 <= part < parts:
            raise BadSpecification(f"part is {part}; it must be 0 to {parts - 1}.")
        of_mlrc = {key: settings[key] for key in ("form", "reversed") if key in settings}
        whole = mlrc(catalog, folds=parts, **of_mlrc)[part]
    else:
        whole = create(name, catalog, **settings)[0]
        if not len(whole.validation):  # neither the data nor the protocol defines validation classes
            if not validation:
                raise BadSpecification("The protocol 'choosing' needs `validation`: a share of the training classes.")
            whole = create(name, catalog, validation=validation, **settings)[0]
    if not len(whole.validation):
        raise BadInput(f"The protocol '{name}' leaves no class of '{catalog.name}' for validation, which trials need.")
    return [Fold("choosing", whole.train, whole.validation, whole.validation, closed=whole.closed, trial=True)]
