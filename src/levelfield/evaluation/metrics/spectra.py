"""Spectra of embeddings: singular values of the whole set and of each class, spectral decay rho."""

from __future__ import annotations

import math

import numpy as np
import torch

from levelfield.errors import BadInput, unknown
from levelfield.evaluation.inputs import Array, Arrays
from levelfield.evaluation.metrics.geometry import Points, cached
from levelfield.evaluation.metrics.registry import MetricFacts, Number, register
from levelfield.evaluation.search.threads import torch_threads

DIRECTIONS = ("uniform-spectrum", "spectrum-uniform")
PAPER_LENGTH = 35  # length of the class spectra in roth2020 (section E)


def spectrum(rows: Arrays) -> Array:
    """All min(n, d) singular values of the rows as given (not centred, not normalised), largest first.

    rows: (n, d) array or tensor. Computed in float64 for any input dtype, from the triangular factor of a blockwise QR
    decomposition, which has the same singular values. (The d x d Gram matrix would lose half the digits of the small
    values.) Memory: O(d^2).

    >>> spectrum([[3.0, 0.0], [0.0, 1.0], [4.0, 0.0]])
    array([5., 1.])
    """
    return np.asarray(_all_values(Points.of(rows)))


def spectral_decay(rows: Arrays, drop_largest: int = 0, direction: str = "uniform-spectrum") -> float:
    """rho of roth2020: the KL divergence of the uniform distribution from the singular values divided by their sum.

    0: all directions are used equally; larger: more compressed; infinite with a dead direction (a singular value of at
    most max(n, d) 2^-52 of the largest). Rows are used as given: roth2020 uses rows of unit length and measures the
    training set. drop_largest: number of largest values to drop first.
    direction: "spectrum-uniform" is the other divergence, which stays finite.

    >>> spectral_decay([[1.0, 0.0], [0.0, 1.0]]), spectral_decay([[1.0, 0.0], [1.0, 0.0]])
    (0.0, inf)
    """
    if direction not in DIRECTIONS:
        raise unknown("direction", direction, DIRECTIONS)
    return _decay(Points.of(rows), drop_largest, direction)


def class_spectra(rows: Arrays, labels: Arrays, length: int = PAPER_LENGTH) -> Array:
    """Singular values of the rows of each class, (classes, length), classes in the order of np.unique(labels).

    rows: (n, d) array or tensor; labels: (n,). Not centred, largest first, truncated or zero-padded to `length`.

    >>> class_spectra([[3.0, 0.0], [4.0, 0.0], [0.0, 2.0]], ["b", "b", "a"], length=2)
    array([[2., 0.],
           [5., 0.]])
    """
    if length < 1:
        raise BadInput(f"length={length}: the length of a spectrum must be at least 1.")
    points = Points.of(rows, labels)
    result = np.zeros((len(points.classes), length))
    for positions in points.classes:
        values = _singular_values(points, positions)[:length]
        result[points.codes[positions[0]], : len(values)] = values
    return result


def class_spectrum(rows: Arrays, labels: Arrays, length: int = PAPER_LENGTH) -> Array:
    """Mean of the class spectra, (length,): see `class_spectra` (roth2020, section E).

    >>> class_spectrum([[3.0, 0.0], [4.0, 0.0], [0.0, 2.0]], ["b", "b", "a"], length=2)
    array([3.5, 0. ])
    """
    ordered = np.sort(class_spectra(rows, labels, length), axis=0)  # so that the names of classes do not matter
    return np.asarray(ordered.mean(axis=0))


@register(
    "rho",
    MetricFacts(
        "geometry",
        "spectral decay: divergence of the uniform distribution from the singular values; "
        "0 = all directions used equally, larger = more compressed (reverse: the other divergence; "
        "drop: without the N largest)",
        ("forward", "reverse"),
        {"drop": Number(0, above=-1, whole=True)},
    ),
)
def rho(points: Points, *, form: str, drop: float) -> float:
    return _decay(points, int(drop), DIRECTIONS[form == "reverse"])


@cached
def _all_values(points: Points) -> Array:
    return _singular_values(points, points.order)


def _singular_values(points: Points, positions: Array) -> Array:
    dim = points.rows.shape[1]
    triangle = torch.zeros(0, dim, dtype=torch.float64)
    with torch_threads(1):
        for part in points.parts(positions, size=2 * dim):
            triangle = torch.linalg.qr(torch.cat([triangle, torch.from_numpy(part)]), mode="r").R
        values: Array = points.scale * torch.linalg.svdvals(triangle).numpy()
    return values


def _decay(points: Points, drop: int, direction: str) -> float:
    values = _all_values(points)
    if not 0 <= drop < len(values):
        raise BadInput(
            f"rho cannot drop the {drop} largest of {len(values)} singular values (rows: {points.rows.shape}); "
            f"drop must be 0 to {len(values) - 1}."
        )
    smallest = max(points.rows.shape) * 2.0**-52 * values[0]
    kept = np.where(values > smallest, values, 0.0)[drop:]
    if direction == "uniform-spectrum":
        return math.inf if not kept.all() else max(float(np.log(kept.mean()) - np.log(kept).mean()), 0.0)
    if not kept.any():
        return math.nan  # no mass left
    share = kept[kept > 0] / kept.sum()
    return max(float((share * np.log(share * len(kept))).sum()), 0.0)
