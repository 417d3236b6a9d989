"""Tightness and separation of classes: distances within and between them, density, alignment, uniformity."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from levelfield.errors import unknown
from levelfield.evaluation.inputs import Array, Arrays
from levelfield.evaluation.metrics.geometry import Points, cached, pair_sum, pairs_of
from levelfield.evaluation.metrics.registry import MetricFacts, Number, register
from levelfield.evaluation.search.distances import unit_rows
from levelfield.progress import SILENT_STAGE, Stage

DISTANCES = ("cosine", "euclidean")
_ALPHA = Number(2, above=0)
_T = Number(2, above=0, most=100)  # above 180 the farthest pairs would underflow


class Density(NamedTuple):
    """Distance within classes, distance between class means, and their ratio."""

    intra: float
    inter: float
    ratio: float


def density(rows: Arrays, labels: Arrays, distance: str = "cosine") -> Density:
    """Mean distance within classes, mean distance between class means, and their ratio (roth2020).

    rows: (n, d) array or tensor; labels: (n,). cosine: rows and class means are normalised to unit length; euclidean:
    rows as given. Every class has equal weight in `intra`, every pair of classes in `inter`. A class of one row counts
    only in `inter`. NaN if there is no pair.

    >>> density([[0.0, 0.0], [0.0, 2.0], [3.0, 1.0], [3.0, 1.0]], [0, 0, 1, 1], distance="euclidean")
    Density(intra=1.0, inter=3.0, ratio=0.3333333333333333)
    """
    if distance not in DISTANCES:
        raise unknown("distance", distance, DISTANCES)
    points = Points.of(rows, labels, unit=distance == "cosine")
    return Density(intra(points), inter(points), ratio(points))


def alignment(rows: Arrays, labels: Arrays, alpha: float = 2.0) -> float:
    """Mean of |x - y|^alpha over all pairs of one class, on rows normalised to unit length. NaN if there is no pair.

    rows: (n, d) array or tensor; labels: (n,).

    >>> alignment([[1.0, 0.0], [0.0, 5.0], [1.0, 1.0]], ["a", "a", "b"])
    2.0
    """
    return _alignment(Points.of(rows, labels, unit=True), alpha=_ALPHA.checked("alpha", alpha))


def uniformity(rows: Arrays, t: float = 2.0) -> float:
    """log of the mean of exp(-t |x - y|^2) over all pairs of rows (n, d), normalised to unit length. Lower values mean
    more evenly distributed rows; NaN for a single row. Costs half of the n x n x d product; memory: one copy of the
    rows.

    >>> uniformity([[1.0, 0.0], [0.0, 5.0]], t=3)
    -6.0
    """
    return _uniformity(Points.of(rows, unit=True), t=_T.checked("t", t))


@register(
    "intra_distance",
    MetricFacts("geometry", "mean over classes of the mean distance within the class", distances=DISTANCES),
)
@cached
def intra(points: Points) -> float:
    means = []
    for positions in points.classes:
        if (count := len(positions)) < 2:
            continue
        centre = points.mean(positions)
        if points.unit:
            # 1 - xy = |x - y|^2 / 2 for unit rows, and the mean of |x - y|^2 / 2 is the scatter / (count - 1): exact
            # for equal rows. A zero row has |x|^2 = 0, and its distance to all others is 1.
            zeros = sum(int((~part.any(axis=1)).sum()) for part in points.parts(positions))
            means.append(points.scatter(positions, centre) / (count - 1) + zeros / count)
        else:
            distances = _class_pairs(points, positions, centre, Tensor.sqrt_)
            means.append(points.scale * (distances / pairs_of(count)))
    return math.fsum(means) / len(means) if means else math.nan


@register("inter_distance", MetricFacts("geometry", "mean distance between the means of classes", distances=DISTANCES))
@cached
def inter(points: Points) -> float:
    count = len(points.classes)
    if count < 2:
        return math.nan
    if points.unit:
        total, length = np.zeros(points.rows.shape[1]), 0.0
        for positions in points.classes:
            mean = unit_rows(points.mean(positions)[None])[0]
            total += mean
            length += float(mean @ mean)
        return max(1 - float(total @ total - length) / (count * (count - 1)), 0.0)
    # same dtype as the rows, so that one class per row costs no more than the rows; centred at the origin
    middle = points.mean(points.order)
    means = np.empty((count, points.rows.shape[1]), points.rows.dtype)
    for number, positions in enumerate(points.classes):
        means[number] = points.mean(positions) - middle
    distances = pair_sum(count, lambda start, stop: means[start:stop].astype(np.float64), Tensor.sqrt_)
    return points.scale * (distances / pairs_of(count))


@register("density", MetricFacts("geometry", "intra_distance divided by inter_distance", distances=DISTANCES))
def ratio(points: Points, *, form: None = None) -> float:
    return float(intra(points) / max(inter(points), 1e-8))


@register(
    "alignment",
    MetricFacts(
        "geometry",
        "mean of |x - y|^alpha over the pairs of one class, rows of unit length",
        numbers={"alpha": _ALPHA},
        norm="unit",
    ),
)
def _alignment(points: Points, *, form: None = None, alpha: float) -> float:
    classes = [positions for positions in points.classes if len(positions) > 1]
    sums = []
    for positions in classes:
        centre = points.mean(positions)
        if alpha == 2:
            sums.append(len(positions) * points.scatter(positions, centre))
        else:
            sums.append(_class_pairs(points, positions, centre, lambda squares: squares.pow_(alpha / 2)))
    pairs = sum(pairs_of(len(positions)) for positions in classes)
    return math.fsum(sums) / pairs if pairs else math.nan


@register(
    "uniformity",
    MetricFacts(
        "geometry",
        "log of the mean of exp(-t |x - y|^2) over all pairs, rows of unit length",
        numbers={"t": _T},
        norm="unit",
        all_pairs=True,
    ),
)
def _uniformity(points: Points, *, form: None = None, t: float, stage: Stage = SILENT_STAGE) -> float:
    count = len(points.rows)
    if count < 2:
        return math.nan
    # in the dtype of the rows: float32 has an error of 1e-7, as the rows themselves do. A large t would underflow.
    rows = points.copied(np.float64 if t > 20 else points.rows.dtype)
    total = pair_sum(count, lambda start, stop: rows[start:stop], lambda squares: squares.mul_(-t).exp_(), stage)
    return math.log(total / pairs_of(count))


def _class_pairs(points: Points, positions: Array, centre: Array, value: Any) -> float:
    return pair_sum(len(positions), lambda start, stop: points.lifted(positions[start:stop]) - centre, value)
