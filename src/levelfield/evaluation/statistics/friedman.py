"""Methods over several datasets: mean ranks, Friedman's test and Nemenyi's critical difference (Demsar 2006, JMLR 7).

Tables are `[datasets, methods]`, larger is better. Every dataset has equal weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from levelfield.errors import BadInput
from levelfield.evaluation.statistics.comparisons import ALPHA
from levelfield.evaluation.statistics.crossed import Floats


@dataclass(frozen=True)
class Ranking:
    """Mean ranks, best first; `p` of Friedman's test that all methods are equal; Nemenyi's critical difference of two
    mean ranks; the maximal groups of methods without significant differences."""

    mean_ranks: dict[str, float]
    datasets: list[str]
    chi_square: float
    p: float
    critical_difference: float
    groups: list[list[str]]

    @property
    def differ(self) -> bool:
        """Whether Friedman's test is significant; if not, no pair may be called different."""
        return self.p < ALPHA


def rank(table: Mapping[str, Mapping[str, float]]) -> Ranking:
    """Rank methods by their scores on datasets, `table[dataset][method]`.

    >>> ranking = rank({f"d{k}": {"a": 0.9, "b": 0.8, "c": 0.7} for k in range(4)})
    >>> ranking.mean_ranks, round(ranking.p, 4), round(ranking.critical_difference, 3), ranking.groups
    ({'a': 1.0, 'b': 2.0, 'c': 3.0}, 0.0183, 1.657, [['a', 'b'], ['b', 'c']])
    """
    datasets, methods = list(table), list(next(iter(table.values()), {}))
    if len(datasets) < 2:
        raise BadInput(f"Ranks need at least 2 datasets, not {len(datasets)}.")
    if len(methods) < 3:
        listed = ", ".join(methods) or "none"
        raise BadInput(f"Ranks need at least 3 methods with results on all datasets, not {len(methods)} ({listed}).")
    ranked = ranks([[table[dataset][method] for method in methods] for dataset in datasets])
    means = dict(sorted(zip(methods, ranked.mean(axis=0).tolist(), strict=True), key=lambda entry: entry[1]))
    difference = critical_difference(len(methods), len(datasets))
    chi_square, p = friedman(ranked)
    return Ranking(means, datasets, chi_square, p, difference, alike(means, difference))


def ranks(table: npt.ArrayLike) -> Floats:
    """Ranks within each dataset: 1 is best, ties share their mean rank."""
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise BadInput("Ranks need one finite value per method and dataset.")
    from scipy.stats import rankdata

    return np.asarray(rankdata(-values, axis=1))


def friedman(ranked: Floats) -> tuple[float, float]:
    """Friedman's chi-square of ranks [datasets, methods], corrected for ties, and its p-value."""
    from scipy.stats import friedmanchisquare

    if not np.ptp(ranked):
        return 0.0, 1.0
    test = friedmanchisquare(*ranked.T)
    return float(test.statistic), float(test.pvalue)


def critical_difference(methods: int, datasets: int, *, alpha: float = ALPHA) -> float:
    """Nemenyi's critical difference of two mean ranks, with all pairs compared."""
    from scipy.stats import studentized_range

    q = studentized_range.ppf(1 - alpha, methods, np.inf) / math.sqrt(2)
    return float(q * math.sqrt(methods * (methods + 1) / (6 * datasets)))


def alike(mean_ranks: Mapping[str, float], difference: float) -> list[list[str]]:
    """Maximal groups of two or more methods without significant differences, best first."""
    order = sorted(mean_ranks, key=lambda method: mean_ranks[method])
    groups: list[list[str]] = []
    for first, method in enumerate(order):
        near = [other for other in order[first:] if mean_ranks[other] - mean_ranks[method] < difference]
        if len(near) > 1 and not (groups and near[-1] == groups[-1][-1]):
            groups.append(near)
    return groups


def worse_methods(ranking: Ranking) -> list[tuple[str, list[str]]]:
    """For each method, best first, the methods that Nemenyi's test finds worse."""
    pairs = []
    for method, mean in ranking.mean_ranks.items():
        worse = [other for other, rank in ranking.mean_ranks.items() if rank - mean >= ranking.critical_difference]
        pairs += [(method, worse)] if worse else []
    return pairs
