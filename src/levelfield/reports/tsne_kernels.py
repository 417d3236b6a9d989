"""Compiled loops of t-SNE: attraction along the edges of a graph, repulsion, steps, and values of points on a grid.

Points and the 4 x 4 nearest nodes of the grid are connected by cubic B-splines.
"""

from __future__ import annotations

import numpy as np

from levelfield.evaluation.inputs import Array
from levelfield.evaluation.search.blocked_kernels import compiled


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
def move(slope: Array, speed: Array, gains: Array, points: Array, limits: tuple[float, float, float, float]) -> None:
    """One step down the slope; the mean of the points stays 0. limits: rate, momentum, least gain, longest step."""
    rate, momentum, least, longest = limits
    total = np.zeros(2, np.float64)
    for point in range(len(points)):
        square = np.float32(0)
        for axis in range(2):
            down, fast, gain = slope[point, axis], speed[point, axis], gains[point, axis]
            gain = gain + np.float32(0.2) if (down > 0) != (fast > 0) else gain * np.float32(0.8)
            gain = max(gain, np.float32(least))
            fast = np.float32(momentum) * fast - np.float32(rate) * gain * down
            square += fast * fast
            gains[point, axis], speed[point, axis] = gain, fast
        length = np.sqrt(square)
        share = np.float32(longest) / length if length > longest else np.float32(1)
        for axis in range(2):
            speed[point, axis] *= share
            points[point, axis] += speed[point, axis]
            total[axis] += points[point, axis]
    for axis in range(2):
        points[:, axis] -= np.float32(total[axis] / len(points))


@compiled
def filtered(waves: Array, nearness: Array, forces: Array, out: Array) -> float:
    """Set `out` to the waves times i times each of the two forces, and return the sum of |wave|^2 times nearness.

    Waves and `out` are complex numbers as pairs of real ones: such loops vectorise.
    """
    sums = np.zeros(nearness.shape[1], np.float32)
    for row in range(len(nearness)):
        for column in range(nearness.shape[1]):
            real, imaginary = waves[row, 2 * column], waves[row, 2 * column + 1]
            sums[column] += (real * real + imaginary * imaginary) * nearness[row, column]
        for field in range(2):
            for column in range(nearness.shape[1]):
                force = forces[field, row, column]
                out[field, row, 2 * column] = -waves[row, 2 * column + 1] * force
                out[field, row, 2 * column + 1] = waves[row, 2 * column] * force
    total = 0.0
    for value in sums:
        total += value
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
