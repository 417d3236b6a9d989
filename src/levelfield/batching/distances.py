"""The distribution of pairwise distances of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from levelfield.errors import BadSpecification

MOST_PAIRS = 50_000_000  # limit for sorting
BLOCK = 256  # rows whose distances are computed at a time


@dataclass(frozen=True, eq=False)
class Distances:
    """The reference distribution: pairwise distances of `rows`.

    >>> found = Distances.of(np.array([[0.0], [1.0], [3.0]]), bins=2)
    >>> found.low, found.high, found.shares.round(2).tolist()
    (1.0, 3.0, [0.33, 0.67])
    """

    rows: np.ndarray
    low: float
    high: float
    shares: np.ndarray  # share of the pairs in each bin; empty without bins
    ordered: np.ndarray  # all distances, ascending; empty with bins

    @classmethod
    def of(cls, rows: np.ndarray, bins: int) -> Distances:
        """Compute in blocks, for any number of rows. bins = 0: keep the distances themselves."""
        if not bins:
            if len(rows) ** 2 > 2 * MOST_PAIRS:
                raise BadSpecification(
                    f"distance 'exact' against reference 'data' would sort the distances of all "
                    f"pairs of {len(rows):,} images: choose distance 'bins' or reference 'pool'."
                )
            ordered = np.sort(np.concatenate(list(_blocks(rows))))
            return cls(rows, ordered[0], ordered[-1], np.empty(0), ordered)
        ranges = [(block.min(), block.max()) for block in _blocks(rows)]
        low, high = float(min(a for a, _ in ranges)), float(max(b for _, b in ranges))
        counts = np.zeros(bins)
        for block in _blocks(rows):
            counts += np.bincount(codes(block, low, high, bins), minlength=bins)
        return cls(rows, low, high, counts / counts.sum(), np.empty(0))

    @cached_property
    def cumulated(self) -> np.ndarray:
        return self.shares.cumsum()

    @cached_property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (over n) of each coordinate."""
        return self.rows.mean(axis=0), self.rows.std(axis=0)

    @cached_property
    def _integral(self) -> np.ndarray:
        """Integral of the quantile function up to each of the ordered distances."""
        sums: np.ndarray = np.r_[0.0, np.cumsum(self.ordered)] / len(self.ordered)
        return sums

    def wasserstein(self, sample: np.ndarray) -> float:
        """1-Wasserstein distance between `sample` (ascending) and the distances.

        Each value of the sample has a share [a, b] of all quantiles; in it, |quantile function - value| changes sign
        once. The integral of the quantile function is a sum of the ordered distances: O(sample * log pairs).

        >>> aim = Distances.of(np.array([[0.0], [1.0], [3.0]]), bins=0)  # 1, 2 and 3
        >>> round(aim.wasserstein(np.array([2.0])), 4)
        0.6667
        """
        count = len(self.ordered)
        bounds = np.arange(len(sample) + 1) * (count / len(sample))  # in positions of `ordered`
        a, b = bounds[:-1], bounds[1:]
        cross = np.searchsorted(self.ordered, sample, side="right").clip(a, b)
        low, middle, high = (np.interp(at, np.arange(count + 1), self._integral) for at in (a, cross, b))
        return float((sample * (2 * cross - a - b) / count - 2 * middle + low + high).sum())


def pairwise(rows: np.ndarray) -> np.ndarray:
    """(n, n) Euclidean distances, of centred rows: far from the origin, rounding would destroy them."""
    rows = rows - rows.mean(axis=0)
    result: np.ndarray = rows @ rows.T
    squares = result.diagonal().copy()
    result *= -2
    result += squares
    result += squares[:, None]
    np.maximum(result, 0, out=result)
    np.sqrt(result, out=result)
    np.fill_diagonal(result, 0)
    return result


def span(distances: np.ndarray) -> tuple[float, float]:
    """Smallest and largest distance of a pair, without the diagonal."""
    np.fill_diagonal(distances, distances[0, 1])
    found = float(distances.min()), float(distances.max())
    np.fill_diagonal(distances, 0)
    return found


def codes(distances: np.ndarray, low: float, high: float, bins: int) -> np.ndarray:
    """Bin of each distance, floor((x - low) / width), clamped to the end bins.

    >>> codes(np.array([0.0, 1.0, 1.4, 3.0, 9.0]), 1.0, 3.0, 4).tolist()
    [0, 0, 0, 3, 3]
    """
    if high <= low:
        return np.zeros(distances.shape, dtype=np.uint8)
    found = distances - low
    found /= (high - low) / bins
    return found.clip(0, bins - 1, out=found).astype(np.min_scalar_type(bins))


def _blocks(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the distances of all pairs in blocks."""
    rows = rows - rows.mean(axis=0)
    squares = np.einsum("nd,nd->n", rows, rows)
    for start in range(0, len(rows), BLOCK):
        stop = min(start + BLOCK, len(rows))
        found = rows[start:stop] @ rows[start:].T
        found *= -2
        found += squares[start:]
        found += squares[start:stop, None]
        np.sqrt(np.maximum(found, 0, out=found), out=found)
        among, others = found[:, : stop - start], found[:, stop - start :]
        if stop - start > 1:
            yield among[np.triu_indices(stop - start, 1)]
        if stop < len(rows):
            yield others.ravel()
