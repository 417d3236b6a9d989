"""For choosing hyperparameters: the test classes are in no part."""

from __future__ import annotations

import numpy as np

from levelfield.data.catalog import Catalog
from levelfield.data.protocols._registry import Fold, register
from levelfield.data.protocols.standard import standard
from levelfield.errors import BadSpecification


@register("choosing", "The training half of 'standard' alone; its validation classes stand in for the test classes.")
def choosing(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    """For choosing hyperparameters: the test classes are in no part, so they cannot choose anything."""
    if not validation:
        raise BadSpecification("The protocol 'choosing' needs `validation`: the share of training classes that judges.")
    whole = standard(catalog, validation=validation)[0]
    return [Fold("choosing", whole.train, np.empty(0, dtype=np.int64), whole.validation)]
