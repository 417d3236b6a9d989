"""Which differences are real: paired bootstrap over test classes, Holm's correction, intervals over runs.

Every array is `[seeds, classes]`: the mean of a per-query metric over each class's queries, for each seed. The figure
compared is the mean over queries (classes weighted by their number of queries), averaged over seeds. Images of one
class rise and fall together, so classes are drawn again, never single queries. Seeds are held fixed and paired: a
statement here is about other classes of the same kind, not about training again; `t_interval` speaks of the latter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from levelfield.errors import BadInput
from levelfield.evaluation.bootstrap import bounds, resampled_means

Floats = np.ndarray[Any, np.dtype[np.float64]]
_SAMPLE_ENTRIES = 2**22  # resampled differences held at once: 32 MB
_ZERO = 1e-12  # a resampled difference below this is rounding


@dataclass(frozen=True)
class Interval:
    """A mean and the interval around it."""

    mean: float
    low: float
    high: float
    level: float = 0.95

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Comparison:
    """How much `first` is above `second`, the interval of that difference, and how surprising it is if there is none.

    `p` is for this pair alone, `adjusted` after Holm's correction for all pairs that were compared. `p_seeds`,
    `adjusted_seeds`: the same of a paired test over shared seeds; `seeds`: how many of them would settle the pair
    (None: not known, or no number).
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    p: float
    adjusted: float
    draws: int
    p_seeds: float | None = None
    adjusted_seeds: float | None = None
    seeds: int | None = None

    def real(self, alpha: float = 0.05) -> bool:
        """Whether the difference is real at level `alpha`; otherwise the two are a tie."""
        return self.adjusted < alpha


def paired_bootstrap(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    weights: npt.ArrayLike,
    *,
    draws: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Comparison:
    """Compare two methods; one row of a deterministic method stands for all seeds of the other.

    p = 2 (1 + the smaller of the numbers of draws at or below 0 and at or above 0) / (draws + 1), at most 1.

    >>> paired_bootstrap([[0.5, 0.7]], [[0.5, 0.7]], [3, 4]).p
    1.0
    """
    return _compare([("a", "b")], {"a": a, "b": b}, weights, draws=draws, seed=seed, level=level)[0]


def compare_all(
    table: Mapping[str, npt.ArrayLike],
    weights: npt.ArrayLike,
    *,
    draws: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> list[Comparison]:
    """All pairs in the table's order, Holm-corrected. All pairs see the same draws of classes.

    With many methods `draws` grows to 100 per pair: with fewer, even the smallest p could not survive the correction.

    >>> better, worse = [[0.9, 0.8, 0.9, 0.7]], [[0.5, 0.4, 0.6, 0.3]]
    >>> [(c.first, c.second, c.real()) for c in compare_all({"A": better, "B": worse, "C": worse}, [5, 5, 5, 5])]
    [('A', 'B', True), ('A', 'C', True), ('B', 'C', False)]
    """
    pairs = list(combinations(table, 2))
    if not pairs:
        return []
    found = _compare(pairs, table, weights, draws=max(draws, 100 * len(pairs)), seed=seed, level=level)
    return [replace(one, adjusted=p) for one, p in zip(found, holm([one.p for one in found]), strict=True)]


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: the chance of even one false claim stays below alpha if all below alpha are claimed.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, floor = [0.0] * len(p_values), 0.0
    for rank, position in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[position]))
        adjusted[position] = floor
    return adjusted


def ties(comparisons: Sequence[Comparison], *, alpha: float = 0.05) -> list[list[str]]:
    """Groups of methods, best first: in the first are the best and all that cannot be told from it; then the same for
    the rest. Two members of one group may still differ from each other; the comparisons say so.

    >>> better, worse = [[0.9, 0.8, 0.9, 0.7]], [[0.5, 0.4, 0.6, 0.3]]
    >>> ties(compare_all({"B": worse, "A": better, "C": worse}, [5, 5, 5, 5]))
    [['A'], ['B', 'C']]
    """
    level_with: dict[str, set[str]] = {}
    above: dict[str, float] = {}
    for one in comparisons:
        for label, other, sign in ((one.first, one.second, 1), (one.second, one.first, -1)):
            level_with.setdefault(label, set()).update([] if one.real(alpha) else [other])
            above[label] = above.get(label, 0.0) + sign * one.difference
    ranked = sorted(above, key=lambda label: -above[label])  # sums of differences sort as the means do
    groups = []
    while ranked:
        group = [ranked[0]] + [label for label in ranked[1:] if label in level_with[ranked[0]]]
        groups.append(group)
        ranked = [label for label in ranked if label not in group]
    return groups


def class_bootstrap_interval(
    a: npt.ArrayLike,
    weights: npt.ArrayLike,
    *,
    draws: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """Interval of one method's figure over classes drawn again. Not for comparing methods: their errors are paired.

    >>> class_bootstrap_interval([[0.5, 0.5]], [1, 3])
    Interval(mean=0.5, low=0.5, high=0.5, level=0.95)
    """
    means = _rows(a, "a").mean(axis=0, keepdims=True)
    shares = _weights(weights, means.shape[1])
    low, high = bounds(_resampled(means, shares, draws, seed)[:, 0], level)
    return Interval(float(means[0] @ shares / shares.sum()), low, high, level)


def t_interval(values: Sequence[float] | Floats, *, level: float = 0.95) -> Interval | None:
    """Mean over runs with Student's interval, mean +- t s / sqrt(n); None for a single run.

    >>> interval = t_interval([0.60, 0.62, 0.61])
    >>> round(interval.mean, 4), round(interval.half_width, 4)
    (0.61, 0.0248)
    """
    runs = np.asarray(values, dtype=np.float64)
    if runs.ndim != 1 or not np.isfinite(runs).all() or not len(runs):
        raise BadInput(f"An interval over runs needs one finite value per run; {runs.tolist()} came.")
    if len(runs) == 1:
        return None
    from scipy.stats import t

    half = float(t.ppf((1 + level) / 2, len(runs) - 1)) * float(runs.std(ddof=1)) / math.sqrt(len(runs))
    mean = float(runs.mean())
    return Interval(mean, mean - half, mean + half, level)


def _compare(
    pairs: list[tuple[str, str]],
    table: Mapping[str, npt.ArrayLike],
    weights: npt.ArrayLike,
    *,
    draws: int,
    seed: int,
    level: float,
) -> list[Comparison]:
    rows = {label: _rows(values, label) for label, values in table.items()}
    # Differences are formed class by class before anything is summed: equal methods differ by exactly 0 in every draw.
    differences = np.stack([_difference(rows, first, second) for first, second in pairs])
    shares = _weights(weights, differences.shape[1])
    observed = differences @ shares / shares.sum()
    result = []
    size = max(_SAMPLE_ENTRIES // draws, 1)
    for start in range(0, len(pairs), size):  # the same seed gives every portion of the pairs the same draws
        samples = _resampled(differences[start : start + size], shares, draws, seed).T
        for (first, second), difference, sample in zip(pairs[start:], observed[start:], samples, strict=False):
            fewer = min(int((sample <= _ZERO).sum()), int((sample >= -_ZERO).sum()))
            p = min(1.0, 2 * (1 + fewer) / (draws + 1))
            result.append(Comparison(first, second, float(difference), *bounds(sample, level), p, p, draws))
    return result


def _difference(rows: Mapping[str, Floats], first: str, second: str) -> Floats:
    a, b = rows[first], rows[second]
    if a.shape[1] != b.shape[1] or (len(a) != len(b) and 1 not in (len(a), len(b))):
        raise BadInput(
            f"'{first}' has {a.shape[0]} seeds x {a.shape[1]} classes and '{second}' {b.shape[0]} x "
            f"{b.shape[1]}: a paired comparison needs the same classes, and the same seeds or one row."
        )
    mean: Floats = (a - b).mean(axis=0)
    return mean


def _resampled(values: Floats, shares: Floats, draws: int, seed: int) -> Floats:
    """Weighted mean of each row of `values` under each draw of classes, `[draws, rows]`."""
    if draws < 1:
        raise BadInput(f"draws={draws}: at least 1 is needed.")
    return resampled_means(values, shares, draws, seed)


def _rows(values: npt.ArrayLike, label: str) -> Floats:
    rows = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if rows.ndim != 2 or not rows.size:
        raise BadInput(f"'{label}' has shape {rows.shape}: (seeds, classes) is needed.")
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        raise BadInput(f"'{label}' has a NaN or an infinity, the first for seed {bad[0][0]} and class {bad[0][1]}.")
    return rows


def _weights(values: npt.ArrayLike, classes: int) -> Floats:
    weights = np.asarray(values, dtype=np.float64)
    if weights.shape != (classes,) or not (weights > 0).all() or not np.isfinite(weights).all():
        raise BadInput(
            f"weights of shape {weights.shape} came for {classes} classes: "
            "one positive number of queries per class is needed."
        )
    return weights
