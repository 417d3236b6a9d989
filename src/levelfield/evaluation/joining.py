"""Join several embeddings of the same images: ensembles (seidenschwarz2021 F), DREML, the folds of MLRC."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from levelfield.errors import BadInput
from levelfield.evaluation.inputs import Array, Arrays, as_array
from levelfield.evaluation.search.distances import unit_rows


def joined(members: Sequence[Arrays]) -> Array:
    """Normalise the rows of each member (n, d_k) to length 1 and concatenate them: float32 (n, sum of d_k).

    Without normalisation the member with the longest rows would dominate. The result is not normalised again: every row
    without a zero part has length sqrt(members), so Euclidean distance and cosine rank equally. A zero row stays zero.
    The bits of a row depend only on that row.

    >>> joined([np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[100.0], [-7.0]])])
    array([[ 0.6,  0.8,  1. ],
           [ 0. ,  0. , -1. ]], dtype=float32)
    """
    if not len(members):
        raise BadInput("No members to join: pass at least one.")
    arrays = [np.ascontiguousarray(as_array(rows, f"member {number}")) for number, rows in enumerate(members)]
    for number, rows in enumerate(arrays):
        if rows.ndim != 2:
            raise BadInput(f"Member {number} has shape {rows.shape}; expected (images, dim).")
        if len(rows) != len(arrays[0]):
            raise BadInput(
                f"Member {number} has {len(rows)} rows but member 0 has {len(arrays[0])}: all members need the same "
                "images in the same order."
            )
    return np.concatenate([unit_rows(rows, np.float32) for rows in arrays], axis=1)
