"""D2, the random coreset: anchors in dense regions of the pool, far from earlier anchors."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from levelfield.batching._base import Labels
from levelfield.batching._coreset import Chosen, Coreset
from levelfield.batching._registry import register
from levelfield.settings import NotNegative

TINY = 1e-12  # share of the mean variance: a smaller eigenvalue counts as 0


class Density:
    """Normal distribution with mean and covariance (over n - 1) of `rows` (pool, dim), as log density: the density
    itself overflows at 512 dimensions.

    A singular covariance gets `TINY` mean variances added to its diagonal; equal rows have a density of 1.

    >>> Density(np.array([[0.0], [2.0]])).log.round(4)  # variance 2
    array([-1.5155, -1.5155])
    """

    def __init__(self, rows: np.ndarray) -> None:
        from scipy.linalg import solve_triangular

        self.mean = rows.mean(axis=0)
        self.centred = rows - self.mean
        covariance = self.centred.T @ self.centred / max(1, len(rows) - 1)
        variance = float(np.trace(covariance)) / len(covariance)
        if variance == 0:
            self.factor, self.log = covariance, np.zeros(len(rows))
            return
        self.factor = _root(covariance, TINY * variance, surely_singular=len(rows) <= rows.shape[1])
        white = solve_triangular(self.factor, self.centred.T, lower=True, check_finite=False)
        self.log = -0.5 * np.einsum("dp,dp->p", white, white) - np.log(2 * np.pi) * len(covariance) / 2
        self.log -= np.log(self.factor.diagonal()).sum()

    def draw(self, stream: np.random.Generator) -> np.ndarray:
        """Draw a point."""
        drawn: np.ndarray = self.mean + self.factor @ stream.normal(size=len(self.mean))
        return drawn


def _root(covariance: np.ndarray, tiny: float, *, surely_singular: bool) -> np.ndarray:
    """Lower triangular L with L L^T = covariance, regularised by `tiny` on the diagonal if singular."""
    shift = tiny * np.eye(len(covariance))
    if not surely_singular and _cholesky(covariance - shift) is not None:  # every eigenvalue is above `tiny`
        return _cholesky(covariance)  # type: ignore[return-value]
    root = _cholesky(covariance + shift)
    if root is None:  # rounding of the largest eigenvalue exceeds `tiny`: correct the smallest one by one
        values, vectors = np.linalg.eigh(covariance)
        scaled = vectors * np.sqrt(values.clip(min=0) + tiny)
        upper: np.ndarray = np.linalg.qr(scaled.T)[1]
        root = upper.T * np.sign(upper.diagonal())
    return root


def _cholesky(matrix: np.ndarray) -> np.ndarray | None:
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None


def nearest_row(rows: np.ndarray, point: np.ndarray) -> int:
    """Index of the row nearest to a point.

    >>> nearest_row(np.array([[0.0, 0], [3, 1]]), np.array([2.0, 2]))
    1
    """
    return int(((rows - point) ** 2).sum(axis=1).argmin())


def chances(log_density: np.ndarray, sums: np.ndarray, power: float, barred: np.ndarray) -> np.ndarray:
    """Probability of each row to be chosen next: density * sums^power, 0 where barred; uniform over free rows if all
    are 0.

    sums: sums of squared distances to all chosen rows.

    >>> chances(np.zeros(3), np.array([0.0, 1.0, 3.0]), 1.0, np.array([True, False, False]))
    array([0.  , 0.25, 0.75])
    """
    with np.errstate(divide="ignore"):
        weight = log_density + power * np.log(sums) if power else log_density.copy()
    weight[barred] = -np.inf
    if weight.max() == -np.inf:
        weight = np.where(barred, -np.inf, 0.0)
    chance = np.exp(weight - weight.max())
    shares: np.ndarray = chance / chance.sum()
    return shares


class Sums:
    """Sums of squared distances from all rows to those chosen so far.

    >>> sums = Sums(np.array([[0.0], [1.0], [3.0]]))
    >>> sums.add(0), sums.add(1)
    (array([0., 1., 9.]), array([ 1.,  1., 13.]))
    """

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows
        self.squares = np.einsum("pd,pd->p", rows, rows)
        self.total = np.zeros(len(rows))

    def add(self, chosen: int) -> np.ndarray:
        """The sums after this choice."""
        distances = self.rows @ self.rows[chosen]
        distances *= -2
        distances += self.squares
        distances += self.squares[chosen]
        self.total = self.total + distances.clip(min=0)
        return self.total


@register(
    "d2_coreset", "anchors drawn in dense regions of a pool, far from earlier anchors, each with images of its class"
)
class D2Coreset(Coreset):
    """Roth et al. 2020, D2: the first anchor is nearest to a draw from the pool's normal distribution, the next ones
    are drawn with probability proportional to its density times the sum of squared distances to chosen anchors.
    O(anchors pool dim + dim^3) per batch.

    power: exponent of that sum.

    >>> labels, rows = np.repeat(np.arange(8), 4), np.random.default_rng(0).normal(size=(32, 3))
    >>> D2Coreset(labels, batch_size=8).plan(0, rows).shape
    (4, 8)
    """

    def __init__(
        self,
        labels: Labels,
        *,
        batch_size: int,
        power: NotNegative = 1.0,
        **shared: Unpack[Chosen],
    ) -> None:
        self.power = power
        super().__init__(labels, batch_size=batch_size, **shared)

    def _prepare(self, rows: np.ndarray) -> Density:
        return Density(rows)

    def _anchors(self, prepared: Density, classes: np.ndarray | None, stream: np.random.Generator) -> np.ndarray:
        start = nearest_row(prepared.centred, prepared.draw(stream) - prepared.mean)
        uniform = stream.random(self.classes_per_batch - 1)
        return draw_coreset(prepared, start, uniform, power=self.power, classes=classes)


def draw_coreset(
    density: Density, start: int, uniform: np.ndarray, *, power: float = 1.0, classes: np.ndarray | None = None
) -> np.ndarray:
    """Choose `start` and one more row for each uniform number in [0, 1)."""
    sums, barred = Sums(density.centred), np.zeros(len(density.centred), dtype=bool)
    selected = [start]
    for drawn in uniform:
        barred[selected[-1] if classes is None else classes == classes[selected[-1]]] = True
        chance = chances(density.log, sums.add(selected[-1]), power, barred)
        total = chance.cumsum()
        selected.append(int(np.searchsorted(total / total[-1], drawn, side="right")))
    return np.array(selected)
