"""For choosing hyperparameters: the test classes are in no part."""

from __future__ import annotations

import numpy as np

from levelfield.data.catalog import Catalog
from levelfield.data.protocols._registry import Fold, register
from levelfield.data.protocols.standard import standard
from levelfield.errors import BadSpecification


@register("choosing", "Only the training half of 'standard'; its validation classes replace the test classes.")
def choosing(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    """For hyperparameter search: the test classes are in no part, so they cannot influence the choice."""
    if not validation:
        raise BadSpecification("The protocol 'choosing' needs `validation`: a share of the training classes.")
    whole = standard(catalog, validation=validation)[0]
    return [Fold("choosing", whole.train, np.empty(0, dtype=np.int64), whole.validation)]
