"""Lloyd's k-means for the clustering metrics: seeded, exact, and without redundant comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch.nn import functional as F

from levelfield.errors import BadInput
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.search.distances import half_squares
from levelfield.evaluation.search.order import canonical_order
from levelfield.evaluation.search.products import TILE, tiled
from levelfield.evaluation.search.threads import share
from levelfield.progress import SILENT_STAGE, Stage
from levelfield.randomness import numpy_stream

STEPS = 20
# A block of 480 x 960 scores is 2 MB in float32: subtracting and searching in cache costs 2 % of the product.
_ROWS, _COLUMNS = 10 * TILE, 20 * TILE


def kmeans(
    rows: Array, clusters: int, *, seed: int = 0, start: int = 0, steps: int = STEPS, stage: Stage = SILENT_STAGE
) -> Array:
    """Cluster of each of the rows (n, d), int64 (n,); a pure function of the set of rows and (seed, start).

    Starts at `clusters` different rows, then repeats `steps` times: assign each row to its nearest centre (Euclidean;
    the lower index if tied), move each centre to the mean of its rows; finally one last assignment. An empty cluster
    takes the farther half of the largest cluster. The steps of `stage` are pairs of row and centre, compared or
    skipped. Memory: two copies of the centres plus about 8 MB; the rows are not copied.

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
    """`kmeans` for each start; shared work is done once."""
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
                break  # converged
            state.move_centres()
        else:
            state.assign()
        stage.reach(before + (steps + 1) * len(rows) * clusters)
        yield state.label


class _Lloyd:
    """Assignment that compares rows only with moved centres, and with other centres only if they could be nearer: the
    labels equal those of a full comparison. A centre moves only if its rows changed."""

    def __init__(self, rows: Array, order: Array, centres: Array, stage: Stage) -> None:
        self.rows, self.order, self.centres = rows, order, centres
        self.half = half_squares(centres)
        self.label = np.full(len(rows), -1)
        self.score = np.full(len(rows), -np.inf, rows.dtype)  # score of the own centre at the last comparison
        self.moved = np.ones(len(centres), dtype=bool)
        self.stale = np.zeros(len(centres), dtype=bool)
        self.stage = stage

    def assign(self) -> bool:
        """Assign each row to its nearest centre and mark changed clusters as stale; return whether any row changed."""
        before = self.stage.done
        score, label = self._nearest(None, self.moved)
        # The old score of the own centre is at least that of every unmoved centre. A moved one that reaches it wins.
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
        """Move each stale centre to the mean of its rows, summed in canonical order."""
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
        self.moved[refilled] = True  # even if it did not move: its rows have not been compared with it
        self.centres[stale] = means
        self.half[stale] = half_squares(means)
        self.stale[:] = False

    def _refill(self) -> list[int]:
        """Give each empty cluster the farther half of the largest cluster whose rows are not all equal, if any."""
        sizes = np.bincount(self.label, minlength=len(self.centres))
        refilled: list[int] = []
        for empty in np.flatnonzero(sizes == 0).tolist():
            while sizes.max() > 1:
                largest = int(sizes.argmax())
                members = self.order[self.label[self.order] == largest]
                rows = self.rows[members]
                if (rows != rows[0]).any():
                    break
                sizes[largest] = 1  # splitting equal rows would leave one half empty again
            else:
                break
            spread = np.square(rows - rows.mean(axis=0)).sum(axis=1)
            far = members[np.argsort(-spread, kind="stable")[: len(members) // 2]]
            self.label[far] = empty
            self.score[far] = np.inf  # not yet compared with the new centre, so compare with all
            sizes[empty], sizes[largest] = len(far), len(members) - len(far)
            self.stale[[empty, largest]] = True
            refilled.append(empty)
        return refilled


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
    """
    count = len(rows) if positions is None else len(positions)
    best, name = np.full(count, -np.inf, rows.dtype), np.full(count, len(centres))
    if not len(columns):
        return best, name
    padded = np.pad(columns, (0, -len(columns) % TILE), mode="edge")  # whole tiles
    targets, half = torch.from_numpy(centres[padded]).T, half[padded]
    half[len(columns) :] = np.inf  # the padding can never be nearest
    width = min(targets.shape[1], _COLUMNS)
    height = _ROWS * (_COLUMNS // width)  # few columns: more rows at once

    def look(part: slice) -> None:
        block = torch.from_numpy(tiled(rows[part]) if positions is None else tiled(rows, positions[part]))
        size, buffer = part.stop - part.start, torch.empty(len(block) * width, dtype=block.dtype)
        for left in range(0, targets.shape[1], _COLUMNS):
            right = targets[:, left : left + _COLUMNS]
            scores = torch.mm(block, right, out=buffer[: len(block) * right.shape[1]].view(len(block), -1)).numpy()
            scores -= half[left : left + _COLUMNS]
            best_column = scores.argmax(axis=1)[:size]  # ties: the first, which is the lower index
            score, label = scores[np.arange(size), best_column], columns[best_column + left]
            better = score > best[part]  # later columns have higher indices
            best[part], name[part] = np.where(better, score, best[part]), np.where(better, label, name[part])

    parts = (slice(begin, min(begin + height, count)) for begin in range(0, count, height))
    for part in share(parts, look, threads=torch.get_num_threads()):
        stage.advance((part.stop - part.start) * len(columns))
    return best, name


def ahead(score: Array, name: Array, other: Array, other_name: Array) -> Array:
    """Where the first of two centres is nearer, or equally near with a lower index."""
    return np.asarray((score > other) | ((score == other) & (name < other_name)))
