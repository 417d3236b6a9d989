"""Detect queries that are also gallery rows: each would find itself, and the scores would be meaningless."""

from __future__ import annotations

import warnings

import numpy as np

from levelfield.evaluation.file_rows import FileRows
from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.search.order import row_numbers

_SAMPLE = 64


class QueriesInGallery(UserWarning):
    """Queries find themselves in the gallery, because `query_ids` does not exclude them."""


def warn_of_queries_in_gallery(inputs: Inputs) -> None:
    """Warn if every query has an identical row in the gallery and is not excluded by id.

    A few copies do not trigger the warning: a gallery may contain a photo twice. A sample of the queries is checked
    first, so that the check is cheap.
    """
    if inputs.self_search or not (inputs.query_ids < 0).any():
        return
    if isinstance(inputs.query, FileRows) or isinstance(inputs.gallery, FileRows):
        asked = row_numbers(inputs.query)[inputs.query_ids < 0]
        if np.isin(asked, row_numbers(inputs.gallery)).all():
            _warn(len(asked))
        return
    asked = inputs.query[inputs.query_ids < 0]
    sample = asked[np.linspace(0, len(asked) - 1, min(_SAMPLE, len(asked))).astype(int)]
    if not all(_is_among(row, inputs.gallery) for row in sample):
        return
    known = {hash(row.tobytes()) for row in inputs.gallery}
    if all(hash(row.tobytes()) in known for row in asked):
        _warn(len(asked))


def _warn(asked: int) -> None:
    warnings.warn(
        f"All {asked:,} queries are also rows of the gallery, so each finds itself first. To compare every row "
        "with all other rows, leave out the gallery; or pass the gallery row of each query as query ids.",
        QueriesInGallery,
        stacklevel=4,
    )


def _is_among(row: Array, rows: Array) -> bool:
    near = np.flatnonzero(rows[:, 0] == row[0])
    return bool((rows[near] == row).all(axis=1).any())
