"""Groups of stored embeddings, formed from chunks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.search.dense import largest, similarity_blocks
from levelfield.randomness import numpy_stream


class Groups(NamedTuple):
    """Rows that exchange messages `[groups, size]`, and the columns whose refined rows are kept."""

    members: Array
    kept: tuple[int, ...]


def searched(rows: Array, gallery: Array | None = None) -> Inputs:
    """`rows` as queries for the search of the evaluation, in a gallery or among themselves."""
    columns = rows if gallery is None else gallery
    common = np.promote_types(rows.dtype, columns.dtype)
    rows, columns = (some.astype(common, copy=False) for some in (rows, columns))
    ids = np.arange(len(rows)) if gallery is None else np.full(len(rows), -1)
    codes, others = np.zeros(len(rows), np.int64), np.zeros(len(columns), np.int64)
    alone = gallery is None
    return Inputs(
        rows,
        codes,
        rows if alone else columns,
        codes if alone else others,
        ids,
        np.zeros(1),
        alone,
        8 * common.itemsize,
        torch.device("cpu"),
    )


def nearest_lists(rows: Array, k: int, gallery: Array | None = None) -> Array:
    """`[n, k]`: the k nearest rows of the gallery, or of the other rows; Euclidean, ties to the first.

    >>> nearest_lists(np.array([[0.0], [1.0], [2.0]]), 1).ravel()
    array([1, 0, 1])
    """
    found = np.empty((len(rows), k), np.int64)
    inputs = searched(rows, gallery)
    for queries, values in similarity_blocks(inputs, distance="euclidean") if k else ():
        if gallery is None:
            values[torch.arange(len(queries)), torch.from_numpy(queries)] = -torch.inf
        found[queries] = largest(values, k).numpy()
    return found


def chunks_of(labels: Array, size: int, *, seed: int) -> Array:
    """Chunks of `size` rows of each label, as in training (2.4): shuffled, and filled by drawing some rows again.

    >>> chunks = chunks_of(np.array([4, 9, 4, 4]), 2, seed=0)
    >>> chunks.shape, sorted(set(chunks.ravel().tolist()))
    ((3, 2), [0, 1, 2, 3])
    """
    drawn = numpy_stream(seed, "refine", "chunks")
    found = []
    for label in np.unique(labels):
        members = drawn.permutation(np.flatnonzero(labels == label))
        again = drawn.choice(members, -len(members) % size)
        found.append(np.concatenate((members, again)).reshape(-1, size))
    return np.concatenate(found)


def dealt(chunks: Array, at_once: int, *, seed: int) -> Array:
    """Groups of `at_once` chunks in random order; the last group is filled with the first chunks.

    >>> dealt(np.array([[1, 2], [3, 4], [5, 6]]), 2, seed=0).shape
    (2, 4)
    """
    order = numpy_stream(seed, "refine", "groups").permutation(len(chunks))
    order = np.resize(order, len(order) + -len(order) % at_once)
    return chunks[order].reshape(-1, at_once * chunks.shape[1])
