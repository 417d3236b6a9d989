"""Weights of test classes in a score, and the variance of the score over classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from levelfield.errors import BadInput

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class ClassWeights:
    """Shares of the classes in a score, which is the mean over queries.

    `influence @ (values - score) ** 2` estimates the variance of the score over other draws of classes: each class is
    weighted by its share and corrected for the part of its deviation that subtracting the score removes. The estimate
    is unbiased if all classes vary equally (Bell and McCaffrey 2002). `freedom` is its degrees of freedom: C - 1 for
    classes of equal size, fewer if some classes are much larger than others.

    >>> weights = ClassWeights.of([5, 5, 5, 5])
    >>> weights.shares.tolist(), round(weights.freedom, 6)
    ([0.25, 0.25, 0.25, 0.25], 3.0)
    >>> round(ClassWeights.of([50, 5, 5, 5]).freedom, 2)
    1.03
    """

    shares: Floats
    influence: Floats
    freedom: float

    @classmethod
    def of(cls, queries: npt.ArrayLike) -> ClassWeights:
        """Create from the number of queries of each class."""
        counts = np.asarray(queries, dtype=np.float64)
        if counts.ndim != 1 or not len(counts) or not (counts > 0).all() or not np.isfinite(counts).all():
            raise BadInput(f"weights has shape {counts.shape}; expected one positive number of queries per class.")
        shares = counts / counts.sum()
        squares = float(shares @ shares)
        if len(shares) == 1:
            return cls(shares, np.zeros(1), 0.0)
        influence = shares**2 / (1 - 2 * shares + squares)
        return cls(shares, influence, _freedom(shares, influence))

    def __len__(self) -> int:
        return len(self.shares)

    @property
    def concentration(self) -> float:
        """Sum of the squared shares: 1 / C for classes of equal size."""
        return float(self.shares @ self.shares)


def _freedom(w: Floats, g: Floats) -> float:
    """Satterthwaite's degrees of freedom of the quadratic form, tr(B)^2 / tr(B^2) with B = (I - w1') G (I - 1w')."""
    total, ww, wg, gg = float(g.sum()), float(w @ w), float(w @ g), float(g @ g)
    trace = total - 2 * wg + ww * total
    mixed = -2 * float((g * g) @ w) + total * float(g @ (w * w))
    outer = 2 * wg**2 + 2 * ww * gg - 4 * total * ww * wg + (total * ww) ** 2
    return trace**2 / (gg + 2 * mixed + outer)
