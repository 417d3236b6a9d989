"""What training again would change: paired tests over shared seeds, and how many seeds would settle a pair.

The bootstrap of `statistics` asks for other test classes and holds the seeds; here the classes are held and the
seeds are drawn. A difference is called real by the test classes alone, since few train often enough for the other test;
its p and the seeds that would settle it stand beside.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

MOST = 1000  # beyond so many seeds nobody will go


def paired_t(differences: npt.ArrayLike) -> float | None:
    """Two-sided p of Student's paired test on one difference per seed; None for a single seed.

    >>> round(paired_t([0.01, 0.02, 0.03]), 4), paired_t([0.1])
    (0.0742, None)
    """
    values = np.asarray(differences, dtype=np.float64)
    if len(values) < 2:
        return None
    mean, spread = float(values.mean()), float(values.std(ddof=1))
    if spread == 0:
        return 1.0 if mean == 0 else 0.0
    from scipy.stats import t

    return float(2 * t.sf(abs(mean) * math.sqrt(len(values)) / spread, len(values) - 1))


def seeds_needed(differences: npt.ArrayLike, *, alpha: float = 0.05, most: int = MOST) -> int | None:
    """How many seeds would make a difference of this size and spread sure; None if that is not known or beyond `most`.

    >>> seeds_needed([0.01, 0.02, 0.03]), seeds_needed([0.02]), seeds_needed([0.01, -0.01])
    (4, None, None)
    """
    values = np.asarray(differences, dtype=np.float64)
    if len(values) < 2:
        return None
    mean, spread = abs(float(values.mean())), float(values.std(ddof=1))
    if mean == 0:
        return None
    if spread == 0:
        return 2
    from scipy.stats import t

    counts = np.arange(2, most + 1)
    sure = mean * np.sqrt(counts) / spread > t.ppf(1 - alpha / 2, counts - 1)
    return int(counts[sure.argmax()]) if sure.any() else None
