"""Lloyd's k-means as the clustering metrics need it: seeded, exact, and without work that cannot change anything."""

from __future__ import annotations

import numpy as np
import torch

from levelfield.errors import BadInput
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.order import canonical_order
from levelfield.evaluation.products import product
from levelfield.randomness import numpy_stream

STEPS = 20
_BLOCK_ENTRIES = 2**22  # scores or coordinates held at once: 16 MB in float32


def kmeans(rows: Array, clusters: int, *, seed: int = 0, start: int = 0, steps: int = STEPS) -> Array:
    """Cluster of each row, int64 `[n]`; a pure function of the set of rows and (seed, start).

    Starts at `clusters` different rows, then `steps` times: each row to its nearest centre (Euclidean; the lower number
    if equally near), each centre to the mean of its rows; then one last assignment. An empty cluster takes the farther
    half of the largest one. Memory: about 32 MB beyond the centres and one copy of the rows.

    >>> kmeans(np.array([[0.0], [0.1], [9.0], [9.1]]), 2).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """
    if not 1 <= clusters <= len(rows):
        raise BadInput(f"{clusters} clusters were asked of {len(rows)} rows: 1 to {len(rows)} are possible.")
    order = canonical_order(rows, np.zeros(len(rows)))
    rows = rows[order]
    centres = rows[numpy_stream(seed, "kmeans", start).choice(len(rows), clusters, replace=False)]
    state = _Lloyd(rows, centres)
    for _ in range(steps):
        if not state.assign():
            break  # a fixed point: further steps would repeat it
        state.move_centres()
    else:
        state.assign()
    result = np.empty(len(rows), dtype=np.int64)
    result[order] = state.label
    return result


class _Lloyd:
    """A row looks only at centres that moved, unless its own did; a centre moves only if its rows changed."""

    def __init__(self, rows: Array, centres: Array) -> None:
        self.rows = rows
        self.centres = centres
        self.label = np.full(len(rows), -1)
        self.score = np.full(len(rows), -np.inf, rows.dtype)  # x.c - |c|^2/2 of the own centre: larger is nearer
        self.moved = np.ones(len(centres), dtype=bool)
        self.stale = np.zeros(len(centres), dtype=bool)

    def assign(self) -> bool:
        """Give each row its nearest centre; whether any row changed. Marks the clusters that did as stale."""
        before = self.label.copy()
        moved = np.flatnonzero(self.moved)
        own_moved = (self.label < 0) | self.moved[self.label]
        self._search(np.flatnonzero(own_moved), np.arange(len(self.centres)), anew=True)
        self._search(np.flatnonzero(~own_moved), moved, anew=False)
        changed = before != self.label
        self.stale[self.label[changed]] = True
        self.stale[before[changed & (before >= 0)]] = True
        return bool(changed.any())

    def _search(self, positions: Array, columns: Array, *, anew: bool) -> None:
        if not len(columns):
            return
        half = 0.5 * np.square(self.centres[columns], dtype=np.float64).sum(axis=1).astype(self.rows.dtype)
        size = max(_BLOCK_ENTRIES // max(len(columns), self.rows.shape[1], 64), 64)
        for begin in range(0, len(positions), size):
            block = positions[begin : begin + size]
            scores = product(self.rows, self.centres, rows=block, columns=columns)
            scores -= half
            best = scores.argmax(axis=1)  # the first of equals: the lower number
            score, label = scores[np.arange(len(block)), best], columns[best]
            if not anew:
                kept, own = self.score[block], self.label[block]
                stays = (kept > score) | ((kept == score) & (own < label))
                score, label = np.where(stays, kept, score), np.where(stays, own, label)
            self.score[block], self.label[block] = score, label

    def move_centres(self) -> None:
        self._refill()
        sizes = np.bincount(self.label, minlength=len(self.centres))
        self.stale &= sizes > 0
        positions = np.flatnonzero(self.stale[self.label])
        sums = torch.zeros(self.centres.shape, dtype=torch.from_numpy(self.centres).dtype)
        sums.index_add_(0, torch.from_numpy(self.label[positions]), torch.from_numpy(self.rows[positions]))
        self.centres[self.stale] = sums.numpy()[self.stale] / sizes[self.stale, None].astype(self.rows.dtype)
        self.moved, self.stale = self.stale, np.zeros(len(self.centres), dtype=bool)

    def _refill(self) -> None:
        """Each empty cluster takes the farther half of the largest one whose rows are not all equal, if any is."""
        sizes = np.bincount(self.label, minlength=len(self.centres))
        for empty in np.flatnonzero(sizes == 0).tolist():
            while sizes.max() > 1:
                largest = int(sizes.argmax())
                members = np.flatnonzero(self.label == largest)
                rows = self.rows[members]
                if (rows != rows[0]).any():
                    break
                sizes[largest] = 1  # equal rows can't be told apart: splitting them would leave one half empty again
            else:
                return
            spread = np.square(rows - rows.mean(axis=0)).sum(axis=1)
            far = members[np.argsort(-spread, kind="stable")[: len(members) // 2]]
            self.label[far] = empty
            sizes[empty], sizes[largest] = len(far), len(members) - len(far)
            self.stale[[empty, largest]] = True
