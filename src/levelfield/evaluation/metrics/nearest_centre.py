"""Nearest centre of each row, from products in blocks that fit in the cache."""

from __future__ import annotations

import numpy as np
import torch

from levelfield.evaluation.inputs import Array
from levelfield.evaluation.search.products import TILE, tiled
from levelfield.evaluation.search.threads import share
from levelfield.progress import SILENT_STAGE, Stage

# A block of 480 x 960 scores is 2 MB in float32: subtracting and searching in cache costs 2 % of the product.
_ROWS, _COLUMNS = 10 * TILE, 20 * TILE


def nearest(
    rows: Array,
    centres: Array,
    half: Array,
    *,
    positions: Array | None = None,
    columns: Array,
    stage: Stage = SILENT_STAGE,
) -> tuple[Array, Array]:
    """(score, centre) for the rows at `positions` (None: all) among the centres at `columns` (ascending).

    The score is `row @ centre - half[centre]`, with half = |centre|^2 / 2: larger means nearer; ties go to the lower
    index. It does not depend on the other rows and columns of the call. Without columns the score is -inf and the
    centre an index beyond all others. The steps of `stage` are pairs.

    >>> from levelfield.evaluation.search.distances import half_squares
    >>> centres = np.array([[0.0], [4.0]])
    >>> nearest(np.array([[1.0], [3.0]]), centres, half_squares(centres), columns=np.array([0, 1]))
    (array([0., 4.]), array([0, 1]))
    """
    count = len(rows) if positions is None else len(positions)
    best, name = np.full(count, -np.inf, rows.dtype), np.full(count, len(centres))
    if not len(columns):
        return best, name
    targets, half = _targets(centres, half, columns)
    width = min(targets.shape[1], _COLUMNS)
    height = _ROWS * (_COLUMNS // width)  # few columns: more rows at once

    def look(place: slice) -> None:
        block = torch.from_numpy(tiled(rows[place]) if positions is None else tiled(rows, positions[place]))
        size, buffer = place.stop - place.start, torch.empty(len(block) * width, dtype=block.dtype)
        for left in range(0, targets.shape[1], _COLUMNS):
            right = targets[:, left : left + _COLUMNS]
            scores = torch.mm(block, right, out=buffer[: len(block) * right.shape[1]].view(len(block), -1)).numpy()
            scores -= half[left : left + _COLUMNS]
            found = scores.argmax(axis=1)[:size]  # ties: the first, which is the lower index
            score, label = scores[np.arange(size), found], columns[found + left]
            better = score > best[place]  # later columns have higher indices
            best[place], name[place] = np.where(better, score, best[place]), np.where(better, label, name[place])

    places = (slice(begin, min(begin + height, count)) for begin in range(0, count, height))
    for place in share(places, look, threads=torch.get_num_threads()):
        stage.advance((place.stop - place.start) * len(columns))
    return best, name


def _targets(centres: Array, half: Array, columns: Array) -> tuple[torch.Tensor, Array]:
    """The centres at `columns` and their halves, in whole tiles; the padding can never be nearest."""
    chosen = np.pad(columns, (0, -len(columns) % TILE), mode="edge")
    halves = half[chosen]
    halves[len(columns) :] = np.inf
    return torch.from_numpy(centres[chosen]).T, halves


def ahead(score: Array, name: Array, other: Array, other_name: Array) -> Array:
    """Where the first of two centres is nearer, or equally near with a lower index.

    >>> ahead(np.array([2.0, 1.0, 1.0]), np.array([7, 7, 7]), np.array([1.0, 1.0, 1.0]), np.array([0, 8, 7]))
    array([ True,  True, False])
    """
    better: Array = (score > other) | ((score == other) & (name < other_name))
    return better
