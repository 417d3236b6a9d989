"""Lloyd's k-means as the clustering metrics need it: seeded, exact, and without work that cannot change anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch.nn import functional as F

from levelfield.errors import BadInput
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.metrics.nearest_centre import ahead, nearest
from levelfield.evaluation.search.distances import half_squares
from levelfield.evaluation.search.order import canonical_order
from levelfield.progress import SILENT_STAGE, Stage
from levelfield.randomness import numpy_stream

STEPS = 20


def kmeans(
    rows: Array, clusters: int, *, seed: int = 0, start: int = 0, steps: int = STEPS, stage: Stage = SILENT_STAGE
) -> Array:
    """Cluster of each of the rows (n, d), int64 (n,); a pure function of the set of rows and (seed, start).

    Starts at `clusters` different rows, then `steps` times: each row to its nearest centre (Euclidean; the lower number
    if equally near), each centre to the mean of its rows; then one last assignment. An empty cluster takes the farther
    half of the largest one. The steps of `stage` are pairs of row and centre that were compared or need not be.
    Memory: about 8 MB beyond the centres, twice; the rows are not copied.

    >>> kmeans(np.array([[0.0], [0.1], [9.0], [9.1]]), 2).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """
    return next(clusterings(rows, clusters, seed=seed, starts=[start], steps=steps, stage=stage))


def clusterings(
    rows: Array,
    clusters: int,
    *,
    seed: int = 0,
    starts: Iterable[int] = range(3),
    steps: int = STEPS,
    stage: Stage = SILENT_STAGE,
) -> Iterator[Array]:
    """`kmeans` from each of the starts; what does not depend on the start is done once.

    >>> [len(set(found.tolist())) for found in clusterings(np.arange(12.0).reshape(6, 2), 3, starts=range(2))]
    [3, 3]
    """
    if not 1 <= clusters <= len(rows):
        raise BadInput(f"clusters={clusters}, but there are {len(rows)} rows; clusters must be 1 to {len(rows)}.")
    rows = np.ascontiguousarray(rows, dtype=np.result_type(rows, np.float32))
    order = canonical_order(rows, np.zeros(len(rows)))
    for start in starts:
        before = stage.done
        chosen = numpy_stream(seed, "kmeans", start).choice(len(rows), clusters, replace=False)
        state = _Lloyd(rows, order, rows[order[chosen]], stage)
        for _ in range(steps):
            if not state.assign():
                break  # a fixed point: further steps would repeat it
            state.move_centres()
        else:
            state.assign()
        stage.reach(before + (steps + 1) * len(rows) * clusters)
        yield state.label


class _Lloyd:
    """Rows look only at centres that moved, and at the others only if they might be nearer than those.

    A centre moves only if its rows changed. Every label is the one that comparing all with all would give.
    """

    def __init__(self, rows: Array, order: Array, centres: Array, stage: Stage) -> None:
        self.rows, self.order, self.centres = rows, order, centres
        self.half = half_squares(centres)
        self.label = np.full(len(rows), -1)
        self.score = np.full(len(rows), -np.inf, rows.dtype)  # of the own centre, when the row last looked
        self.moved = np.ones(len(centres), dtype=bool)
        self.stale = np.zeros(len(centres), dtype=bool)
        self.stage = stage

    def assign(self) -> bool:
        """Give each row its nearest centre; whether any row changed. Marks the clusters that did as stale."""
        before = self.stage.done
        score, label = self._nearest(None, self.moved)
        # The old score of the own centre is at least that of every resting centre. A moved one that reaches it wins.
        behind = ahead(self.score, self.label, score, label)
        looks = np.flatnonzero(behind & self.moved[self.label])
        if len(looks):
            others, names = self._nearest(looks, ~self.moved)
            nearer = ahead(others, names, score[looks], label[looks])
            score[looks[nearer]], label[looks[nearer]] = others[nearer], names[nearer]
        stays = behind & ~self.moved[self.label]
        score[stays], label[stays] = self.score[stays], self.label[stays]
        changed = label != self.label
        self.stale[label[changed]] = True
        self.stale[self.label[changed & (self.label >= 0)]] = True
        self.score, self.label = score, label
        self.stage.reach(before + len(self.rows) * len(self.centres))
        return bool(changed.any())

    def _nearest(self, positions: Array | None, chosen: Array) -> tuple[Array, Array]:
        columns = np.flatnonzero(chosen)
        return nearest(self.rows, self.centres, self.half, positions=positions, columns=columns, stage=self.stage)

    def move_centres(self) -> None:
        """Each stale centre to the mean of its rows, summed in canonical order."""
        refilled = self._refill()
        sizes = np.bincount(self.label, minlength=len(self.centres))
        stale = np.flatnonzero(self.stale & (sizes > 0))
        members = self.order[self.stale[self.label[self.order]]]
        members = members[np.argsort(self.label[members], kind="stable")]
        begins = np.cumsum(sizes[stale]) - sizes[stale]
        sums = F.embedding_bag(
            torch.from_numpy(members), torch.from_numpy(self.rows), torch.from_numpy(begins), mode="sum"
        ).numpy()
        means = np.divide(sums, sizes[stale, None].astype(sums.dtype), out=sums)
        self.moved[:] = False
        self.moved[stale] = (means != self.centres[stale]).any(axis=1)
        self.moved[refilled] = True  # even one that stands where it stood: its rows have not looked at it
        self.centres[stale] = means
        self.half[stale] = half_squares(means)
        self.stale[:] = False

    def _refill(self) -> list[int]:
        """Each empty cluster takes the farther half of the largest one whose rows are not all equal, if any is."""
        sizes = np.bincount(self.label, minlength=len(self.centres))
        refilled: list[int] = []
        for empty in np.flatnonzero(sizes == 0).tolist():
            while sizes.max() > 1:
                largest = int(sizes.argmax())
                members = self.order[self.label[self.order] == largest]
                rows = self.rows[members]
                if (rows != rows[0]).any():
                    break
                sizes[largest] = 1  # equal rows can't be told apart: splitting them would leave one half empty again
            else:
                break
            spread = np.square(rows - rows.mean(axis=0)).sum(axis=1)
            far = members[np.argsort(-spread, kind="stable")[: len(members) // 2]]
            self.label[far] = empty
            self.score[far] = np.inf  # they never looked at their new centre, so they look at all
            sizes[empty], sizes[largest] = len(far), len(members) - len(far)
            self.stale[[empty, largest]] = True
            refilled.append(empty)
        return refilled
