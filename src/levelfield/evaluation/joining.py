"""Join several embeddings of the same images: ensembles (seidenschwarz2021 F), DREML, the folds of MLRC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from levelfield.errors import BadInput
from levelfield.evaluation.inputs import Array, Arrays, as_array

_ROWS = 4096  # normalised at a time, in float64


def joined(members: Sequence[Arrays]) -> Array:
    """Normalise the rows of each member (n, d_k) to length 1 and concatenate them: float32 (n, sum of d_k).

    Without normalisation the member with the longest rows would dominate. The result is not normalised again: every row
    without a zero part has length sqrt(members), so Euclidean distance and cosine rank equally. A zero row stays zero.
    The bits of a row depend only on that row.

    >>> joined([np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[100.0], [-7.0]])])
    array([[ 0.6,  0.8,  1. ],
           [ 0. ,  0. , -1. ]], dtype=float32)
    """
    arrays = [as_array(rows, f"member {place}") for place, rows in enumerate(members)]
    _check(arrays)
    ends = np.cumsum([rows.shape[1] for rows in arrays])
    together = np.empty((len(arrays[0]), int(ends[-1])), dtype=np.float32)
    for rows, end in zip(arrays, ends, strict=True):
        for first in range(0, len(rows), _ROWS):
            block = slice(first, first + _ROWS)
            together[block, end - rows.shape[1] : end] = _unit(rows[block])
    return together


def separated(figures: Iterable[float]) -> float:
    """Mean of the members' scores, to compare with the score of the joined embedding.

    >>> separated([0.5, 0.75])
    0.625
    """
    return float(np.mean([float(figure) for figure in figures]))


def _unit(rows: Array) -> Array:
    values = np.array(rows, dtype=np.float64, order="C")
    largest = np.abs(values).max(axis=1, keepdims=True, initial=0.0)  # first, so that no square overflows
    values /= np.where(largest == 0, 1.0, largest)
    length = np.sqrt((values * values).sum(axis=1, keepdims=True))
    return values / np.where(length == 0, 1.0, length)


def _check(members: Sequence[Array]) -> None:
    if not members:
        raise BadInput("No members to join: pass at least one.")
    for place, rows in enumerate(members):
        if rows.ndim != 2:
            raise BadInput(f"Member {place} has shape {rows.shape}; expected (images, dim).")
        if len(rows) != len(members[0]):
            raise BadInput(
                f"Member {place} has {len(rows)} rows but member 0 has {len(members[0])}: all members need the same "
                "images in the same order."
            )
