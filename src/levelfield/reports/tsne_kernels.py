"""Compiled loops of t-SNE: attraction along the edges of a graph, and values between points and a grid.

Values at a point are interpolated from the 4 x 4 nearest nodes by cubic polynomials (Lagrange).
"""

from __future__ import annotations

import numpy as np

from levelfield.evaluation.inputs import Array
from levelfield.evaluation.search.cpu_kernels import compiled


@compiled
def attract(starts: Array, ends: Array, weights: Array, places: Array, out: Array) -> None:
    """The sum of w (a - b) / (1 + |a - b|^2) over the edges of each point a, which begin at `starts[a]`."""
    one = np.float32(1)
    for point in range(len(starts) - 1):
        x, y = places[point, 0], places[point, 1]
        across, up = np.float32(0), np.float32(0)
        for edge in range(starts[point], starts[point + 1]):
            right, above = x - places[ends[edge], 0], y - places[ends[edge], 1]
            pull = weights[edge] / (one + right * right + above * above)
            across += pull * right
            up += pull * above
        out[point, 0], out[point, 1] = across, up


@compiled
def _cubic(at: float, weights: Array) -> None:
    """Weights of the nodes -1, 0, 1 and 2 for a point between 0 and 1."""
    weights[0] = -at * (at - 1) * (at - 2) / 6
    weights[1] = (at + 1) * (at - 1) * (at - 2) / 2
    weights[2] = -(at + 1) * at * (at - 2) / 2
    weights[3] = (at + 1) * at * (at - 1) / 6


@compiled
def spread(places: Array, grid: Array) -> None:
    """Set `grid` to the number of points near each node. Places are in units of the grid, 1 or more from its edge."""
    grid[:] = 0
    rows, columns = np.empty(4, np.float32), np.empty(4, np.float32)
    for point in range(len(places)):
        top, left = int(places[point, 0]), int(places[point, 1])
        _cubic(places[point, 0] - top, rows)
        _cubic(places[point, 1] - left, columns)
        for row in range(4):
            for column in range(4):
                grid[top - 1 + row, left - 1 + column] += rows[row] * columns[column]


@compiled
def gather(places: Array, fields: Array, out: Array) -> None:
    """Set `out` to the values of the two fields at the points; the counterpart of `spread`."""
    rows, columns = np.empty(4, np.float32), np.empty(4, np.float32)
    for point in range(len(places)):
        top, left = int(places[point, 0]), int(places[point, 1])
        _cubic(places[point, 0] - top, rows)
        _cubic(places[point, 1] - left, columns)
        first, second = np.float32(0), np.float32(0)
        for row in range(4):
            for column in range(4):
                weight = rows[row] * columns[column]
                first += weight * fields[0, top - 1 + row, left - 1 + column]
                second += weight * fields[1, top - 1 + row, left - 1 + column]
        out[point, 0], out[point, 1] = first, second
