"""t-SNE in two dimensions: exact neighbours, repulsion by convolution on a grid (Linderman et al. 2019, FIt-SNE).

More than 10 times as fast as scikit-learn's and openTSNE's for 5,000 embeddings, with the same trustworthiness
(`benchmarks/embedding_maps.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from levelfield.evaluation.inputs import Array, check_inputs
from levelfield.evaluation.search.compiling import compiled
from levelfield.evaluation.search.dense import neighbours

if TYPE_CHECKING:  # scipy is imported when it is used: a report whose page is there needs none of this
    from scipy.sparse import csr_matrix

PERPLEXITY = 20.0  # van der Maaten and Hinton 2008: 5 to 50; 30 is slower and no more faithful (benchmarks)
NEIGHBOURS = int(3 * PERPLEXITY)
MOMENTUM, LEAST_GAIN = 0.8, 0.01  # van der Maaten and Hinton 2008
LONGEST_STEP = 5.0  # of a point in one iteration; keeps outliers from flying off
EXACT = 1000  # up to this many points, sum over all pairs: it is faster than the grid
SPACING = 0.5  # between nodes of the grid; the kernel 1 / (1 + d^2) has width 1
MIN_GRID_NODES, MAX_GRID_NODES = 96, 320  # along a side; in larger maps the spacing grows
ROOM = 1.15  # the grid is larger than the map by this factor, so that it is seldom made anew
TINY = 1e-12
MARGIN = 4  # nodes at each edge, for interpolation


class Phase(NamedTuple):
    """Iterations in which attraction is multiplied by `exaggeration`."""

    exaggeration: float
    iterations: int


WHOLE = (Phase(12.0, 100), Phase(1.0, 250))  # exaggeration 12, rate n / exaggeration: Belkina et al. 2019


def affinities(rows: Array) -> csr_matrix:
    """Symmetric affinities (n, n) with sum 1 between each row and its nearest ones.

    >>> affinities(np.array([[0.0], [1.0], [5.0]])).toarray().round(2)
    array([[0.  , 0.24, 0.09],
           [0.24, 0.  , 0.17],
           [0.09, 0.17, 0.  ]])
    """
    from scipy.sparse import csr_matrix

    count, k = len(rows), min(len(rows) - 1, NEIGHBOURS)
    near = neighbours(check_inputs(rows, np.zeros(count, np.int64)), k, distance="euclidean")
    weights = _weights(np.square(near.similarities).astype(np.float64), min(PERPLEXITY, 0.9 * k))
    one_way = csr_matrix((weights.ravel(), near.positions.ravel(), np.arange(0, count * k + 1, k)), (count, count))
    both: csr_matrix = (one_way + one_way.T) / (2 * count)
    both.sort_indices()
    return both


def _weights(squares: Array, perplexity: float) -> Array:
    """Gaussian weights of each row's neighbours, sum 1, with the given perplexity (by bisection)."""
    squares = squares - squares[:, :1]
    low, high = np.zeros(len(squares)), np.full(len(squares), np.inf)
    sharp = 1 / np.maximum(squares.mean(axis=1), TINY)
    for _ in range(40):
        weights = np.exp(-squares * sharp[:, None])
        total = weights.sum(axis=1)
        entropy = np.log(total) + sharp * (squares * weights).sum(axis=1) / total
        flat = entropy > np.log(perplexity)
        low, high = np.where(flat, sharp, low), np.where(flat, high, sharp)
        sharp = np.where(np.isinf(high), 2 * low, (low + np.minimum(high, 1e300)) / 2)
        sharp = np.minimum(sharp, 1e12)  # equal distances have no smaller perplexity
    return np.asarray(weights / total[:, None])


def layout(graph: csr_matrix, start: Array, phases: Sequence[Phase] = WHOLE) -> Array:
    """Move points from `start` (n, 2) to a t-SNE map of the affinities; the mean of the map is 0."""
    from scipy.sparse import triu

    points = np.array(start, dtype=np.float32, order="C")
    half = triu(graph, 1, "csr")  # each edge once
    edges = half.indptr.astype(np.int32), half.indices.astype(np.int32), half.data.astype(np.float32)
    pull, push = np.empty_like(points), np.empty_like(points)
    speed, gains = np.zeros_like(points), np.ones_like(points)
    repulsion = repel if len(points) <= EXACT else _Grid().repel
    for exaggeration, iterations in phases:
        rate = np.float32(4 * max(len(points) / exaggeration, 50.0))
        for _ in range(iterations):
            attract(*edges, points, pull)
            total = max(repulsion(points, push), TINY)
            pull *= np.float32(exaggeration)
            pull -= push / np.float32(total)
            gains = np.where((pull > 0) != (speed > 0), gains + 0.2, gains * 0.8).clip(LEAST_GAIN)
            speed = MOMENTUM * speed - rate * gains * pull
            speed *= (LONGEST_STEP / np.linalg.norm(speed, axis=1, keepdims=True).clip(TINY)).clip(max=1)
            points += speed
            points -= points.mean(axis=0, dtype=np.float64)
    return points


class _Grid:
    """Repulsion between all points in O(n + nodes log nodes): a convolution of their density on a grid.

    Its error is at most 2 % of the largest force in a small map, and a tenth in a large one with a coarser grid.
    """

    def __init__(self) -> None:
        self.reach = 0.0

    def repel(self, points: Array, out: Array) -> float:
        """Set `out` to the sum of (a - b) / (1 + |a - b|^2)^2 over all b, and return that of 1 / (1 + |a - b|^2)."""
        import scipy.fft

        self._fit(float(np.abs(points).max()))
        at = (points + np.float32(self.reach)) / self.step + np.float32(MARGIN)
        spread(at, self.density)
        # the second half of each side is empty: transform it along one side only
        waves = scipy.fft.fft(scipy.fft.rfft(self.density, self.size, axis=1), self.size, axis=0)
        fields = scipy.fft.ifft(1j * waves * self.forces, axis=1, overwrite_x=True)[:, : self.nodes]
        gather(at, scipy.fft.irfft(fields, self.size, axis=2), out)
        nearness = np.vdot(waves, waves * self.nearness).real  # the sum of |wave|^2 times the kernel's
        return float(nearness) - len(points)  # without the points' nearness to themselves

    def _fit(self, reach: float) -> None:
        """Make the grid anew if the map has outgrown it."""
        if reach <= self.reach:
            return
        import scipy.fft

        self.reach = max(ROOM * reach, 5.0)
        self.nodes = int(np.clip(2 * self.reach / SPACING, MIN_GRID_NODES, MAX_GRID_NODES)) + 2 * MARGIN
        self.step = np.float32(2 * self.reach / (self.nodes - 2 * MARGIN))
        self.size = scipy.fft.next_fast_len(2 * self.nodes, real=True)
        offset = np.fft.fftfreq(self.size, 1 / self.size) * float(self.step)
        nearness = 1 / (1 + np.square(offset[:, None]) + np.square(offset))
        across = offset[:, None] * np.square(nearness)
        # B-splines blur twice, when points are spread and when forces are read; sharpen the kernel by as much
        blur = np.square((2 + np.cos(2 * np.pi * np.fft.fftfreq(self.size))) / 3)
        sharper = 1 / (blur[:, None] * blur[: self.size // 2 + 1])
        twice = np.full(self.size // 2 + 1, 2.0)  # a real transform leaves out the mirrored half
        twice[0] = 1.0
        if self.size % 2 == 0:
            twice[-1] = 1.0
        self.nearness = (scipy.fft.rfft2(nearness).real * sharper * twice / self.size**2).astype(np.float32)
        # an odd function has an imaginary transform
        self.forces = (scipy.fft.rfft2(np.stack((across, across.T))).imag * sharper).astype(np.float32)
        self.density = np.zeros((self.nodes, self.nodes), np.float32)


# Points and the 4 x 4 nearest nodes of the grid are connected by cubic B-splines.


@compiled
def attract(starts: Array, ends: Array, weights: Array, points: Array, out: Array) -> None:
    """The sum of w (a - b) / (1 + |a - b|^2) over the edges of each point a.

    Each edge is given once, at either end; those given at a begin at `starts[a]`.
    """
    one = np.float32(1)
    out[:] = 0
    for point in range(len(starts) - 1):
        x, y = points[point, 0], points[point, 1]
        across, up = np.float32(0), np.float32(0)
        for edge in range(starts[point], starts[point + 1]):
            end = ends[edge]
            right, above = x - points[end, 0], y - points[end, 1]
            pull = weights[edge] / (one + right * right + above * above)
            right, above = pull * right, pull * above
            across += right
            up += above
            out[end, 0] -= right
            out[end, 1] -= above
        out[point, 0] += across
        out[point, 1] += up


@compiled
def repel(points: Array, out: Array) -> float:
    """Set `out` to the sum of (a - b) / (1 + |a - b|^2)^2 over all b, and return that of 1 / (1 + |a - b|^2)."""
    one, total = np.float32(1), 0.0
    for point in range(len(points)):
        x, y = points[point, 0], points[point, 1]
        across, up, sum_near = np.float32(0), np.float32(0), np.float32(0)
        for other in range(len(points)):
            right, above = x - points[other, 0], y - points[other, 1]
            near = one / (one + right * right + above * above)
            sum_near += near
            across += near * near * right
            up += near * near * above
        out[point, 0], out[point, 1] = across, up
        total += float(sum_near) - 1.0  # without its nearness to itself
    return total


@compiled
def _cubic(at: float, weights: Array) -> None:
    """Weights of the nodes -1, 0, 1 and 2 for a point between 0 and 1."""
    rest = 1 - at
    weights[0] = rest * rest * rest / 6
    weights[1] = (3 * at * at * at - 6 * at * at + 4) / 6
    weights[2] = (3 * rest * rest * rest - 6 * rest * rest + 4) / 6
    weights[3] = at * at * at / 6


@compiled
def spread(points: Array, grid: Array) -> None:
    """Set `grid` to the number of points near each node. Points are in units of the grid, 1 or more from its edge."""
    grid[:] = 0
    rows, columns = np.empty(4, np.float32), np.empty(4, np.float32)
    for point in range(len(points)):
        top, left = int(points[point, 0]), int(points[point, 1])
        _cubic(points[point, 0] - top, rows)
        _cubic(points[point, 1] - left, columns)
        for row in range(4):
            for column in range(4):
                grid[top - 1 + row, left - 1 + column] += rows[row] * columns[column]


@compiled
def gather(points: Array, fields: Array, out: Array) -> None:
    """Set `out` to the values of the two fields at the points; the counterpart of `spread`."""
    rows, columns = np.empty(4, np.float32), np.empty(4, np.float32)
    for point in range(len(points)):
        top, left = int(points[point, 0]), int(points[point, 1])
        _cubic(points[point, 0] - top, rows)
        _cubic(points[point, 1] - left, columns)
        first, second = np.float32(0), np.float32(0)
        for row in range(4):
            for column in range(4):
                weight = rows[row] * columns[column]
                first += weight * fields[0, top - 1 + row, left - 1 + column]
                second += weight * fields[1, top - 1 + row, left - 1 + column]
        out[point, 0], out[point, 1] = first, second
