"""GC and D2: anchors chosen from a pool by their embeddings, each with other images of its class."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge

from levelfield.batching._groups import complete, draw_images
from levelfield.batching._memory import Remembering
from levelfield.batching._registry import register
from levelfield.errors import BadSpecification
from levelfield.settings import NotNegative

TINY = 1e-12  # share of the mean variance: a smaller eigenvalue counts as 0


class Coreset(Remembering):
    """Anchors of distinct classes chosen by their embeddings, each with n - 1 other images of its class.

    pool: number of candidate images for anchors, redrawn for each batch; or "all".

    A subclass implements `_anchors`, and `_prepare` for what is computed once per pool.
    """

    pool: Annotated[int, Ge(2)] | str = 512  # Roth et al. 2020, released code

    def __post_init__(self) -> None:
        if isinstance(self.pool, str) and self.pool != "all":
            raise BadSpecification(f"'pool' is {self.pool!r}; it must be a number of images, or all.")
        super().__post_init__()
        if isinstance(self.pool, int) and self.pool < self.classes_per_batch:
            raise BadSpecification(f"'pool' is {self.pool}; a batch needs {self.classes_per_batch} anchors from it.")

    def _prepare(self, rows: np.ndarray) -> Any:
        return rows

    @abstractmethod
    def _anchors(self, prepared: Any, classes: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        """`classes_per_batch` rows of the prepared pool (float64), at most one of each of its `classes` (rows,)."""

    def _plan(self, stream: np.random.Generator, memory: Any) -> np.ndarray:
        groups, count = self._groups, self.classes_per_batch
        anchors = np.empty((self.batches, count), dtype=np.int64)
        for number in range(self.batches):
            if number == 0 or self.pool != "all":
                pool = np.flatnonzero(groups.of_image >= 0)
                if isinstance(self.pool, int):
                    pool = draw_images(groups, size=self.pool, least=count, stream=stream)
                prepared = self._prepare(memory[pool].astype(np.float64))
            anchors[number] = pool[self._anchors(prepared, groups.of_image[pool], stream)]
        return complete(groups, anchors, stream)


def squared_distances(rows: np.ndarray, squares: np.ndarray, chosen: int) -> np.ndarray:
    """Squared distances of all rows, with squared norms `squares`, to the row `chosen`: |x|^2 - 2 x c + |c|^2."""
    distances: np.ndarray = rows @ (rows[chosen] * -2)
    distances += squares
    distances += squares[chosen]
    return distances.clip(0, out=distances)


def farthest_first(
    rows: np.ndarray, count: int, start: int, *, classes: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Choose `count` of the `rows` (pool, dim), float64: `start`, then each time the row farthest from its nearest
    chosen row (ties: lowest index; no index twice). Also return the largest such distance after each pick.

    One matrix-vector product per pick, no distance matrix. classes: (pool,); rows of a chosen class are excluded.

    >>> farthest_first(np.array([[0.0], [1.0], [5.0], [9.0]]), 3, start=0)
    (array([0, 3, 2]), array([9., 4., 1.]))
    """
    squares = np.einsum("pd,pd->p", rows, rows)
    nearest, barred = np.full(len(rows), np.inf), np.zeros(len(rows))
    selected, radius = np.empty(count, dtype=np.int64), np.empty(count)
    pick = start
    for turn in range(count):
        selected[turn] = pick
        np.minimum(nearest, squared_distances(rows, squares, pick), out=nearest)
        radius[turn] = nearest.max()
        barred[pick if classes is None else classes == classes[pick]] = -np.inf
        pick = int((nearest + barred).argmax())
    return selected, np.sqrt(radius)


@register("greedy_coreset", "anchors as far as possible from each other, each with images of its class")
class GreedyCoreset(Coreset):
    """Roth et al. 2020, GC: k-centre, farthest first. O(anchors pool dim) per batch.

    >>> labels, rows = np.repeat(np.arange(8), 4), np.random.default_rng(0).normal(size=(32, 3))
    >>> GreedyCoreset(labels, batch_size=8, pool="all").plan(0, rows).shape
    (4, 8)
    """

    def _anchors(self, prepared: np.ndarray, classes: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        start = int(stream.integers(len(prepared)))
        return farthest_first(prepared, self.classes_per_batch, start, classes=classes)[0]


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
        self.factor = _root(covariance, TINY * variance)
        white = solve_triangular(self.factor, self.centred.T, lower=True, check_finite=False)
        self.log = -0.5 * np.einsum("dp,dp->p", white, white) - np.log(2 * np.pi) * len(covariance) / 2
        self.log -= np.log(self.factor.diagonal()).sum()

    def draw(self, stream: np.random.Generator) -> np.ndarray:
        return np.asarray(self.mean + self.factor @ stream.normal(size=len(self.mean)))


def _root(covariance: np.ndarray, tiny: float) -> np.ndarray:
    """Lower triangular L with L L^T = covariance, regularised by `tiny` on the diagonal if singular."""
    shift = tiny * np.eye(len(covariance))
    with suppress(np.linalg.LinAlgError):
        np.linalg.cholesky(covariance - shift)  # fails unless every eigenvalue is above `tiny`
        return np.linalg.cholesky(covariance)
    with suppress(np.linalg.LinAlgError):
        return np.linalg.cholesky(covariance + shift)
    # rounding of the largest eigenvalue exceeds `tiny`: correct each eigenvalue
    values, vectors = np.linalg.eigh(covariance)
    scaled = vectors * np.sqrt(values.clip(min=0) + tiny)
    upper = np.linalg.qr(scaled.T)[1]
    return np.asarray(upper.T * np.sign(upper.diagonal()))


def nearest_row(rows: np.ndarray, point: np.ndarray) -> int:
    return int(((rows - point) ** 2).sum(axis=1).argmin())


def pick_probabilities(log_density: np.ndarray, sums: np.ndarray, power: float, barred: np.ndarray) -> np.ndarray:
    """Probability of each row to be chosen next: density * sums^power, 0 where barred; uniform over free rows if all
    are 0.

    sums: sums of squared distances to all chosen rows.

    >>> pick_probabilities(np.zeros(3), np.array([0.0, 1.0, 3.0]), 1.0, np.array([True, False, False]))
    array([0.  , 0.25, 0.75])
    """
    with np.errstate(divide="ignore"):
        weight = log_density + power * np.log(sums) if power else log_density.copy()
    weight[barred] = -np.inf
    if weight.max() == -np.inf:
        weight = np.where(barred, -np.inf, 0.0)
    chance = np.exp(weight - weight.max())
    return np.asarray(chance / chance.sum())


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

    power: NotNegative = 1.0

    def _prepare(self, rows: np.ndarray) -> Density:
        return Density(rows)

    def _anchors(self, prepared: Density, classes: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        start = nearest_row(prepared.centred, prepared.draw(stream) - prepared.mean)
        return draw_coreset(prepared, start, stream.random(self.classes_per_batch - 1), classes, power=self.power)


def draw_coreset(
    density: Density, start: int, uniform: np.ndarray, classes: np.ndarray, *, power: float = 1.0
) -> np.ndarray:
    """Choose `start` and one more row for each uniform number in [0, 1), at most one row of each class."""
    rows, squares = density.centred, np.einsum("pd,pd->p", density.centred, density.centred)
    sums, barred = np.zeros(len(rows)), np.zeros(len(rows), dtype=bool)
    selected = [start]
    for drawn in uniform:
        sums += squared_distances(rows, squares, selected[-1])
        barred[classes == classes[selected[-1]]] = True
        chance = pick_probabilities(density.log, sums, power, barred)
        total = chance.cumsum()
        selected.append(int(np.searchsorted(total / total[-1], drawn, side="right")))
    return np.array(selected)
