"""Trials of a search: the expected best score of n of them (Dodge et al. 2019), and the importance of settings.

For the best score, trials are drawn without replacement: unbiased for independent trials (Tang et al. 2020), but not
for those of an adaptive sampler. The spread is over searches with n of these trials; it does not cover untried
settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

MIN_TRIALS = 10  # minimum number of trials for a model of importance


@dataclass(frozen=True)
class BestOf:
    """The best of n trials: its expectation, and the range of 95 % of all choices of n trials."""

    trials: int
    expected: float
    low: float
    high: float


def best_of(values: Sequence[float], n: int) -> BestOf:
    """The best of `n` of these `values`, over all ways of choosing them."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    below = _at_most(len(ordered), n)
    chance = np.diff(below, prepend=0.0)
    low, high = (float(ordered[np.searchsorted(below, share - 1e-12)]) for share in (0.025, 0.975))
    return BestOf(n, float(chance @ ordered), low, high)


def winning(values: Mapping[str, Sequence[float]], n: int) -> dict[str, float]:
    """For each method, the share of searches with `n` trials in which its best beats that of all others. Methods with
    the same best share the win, so that all shares sum to 1.

    >>> {name: round(share, 3) for name, share in winning({"a": [0.1, 0.4], "b": [0.2, 0.3]}, 1).items()}
    {'a': 0.5, 'b': 0.5}
    """
    every = np.unique(np.concatenate([np.asarray(scores, dtype=np.float64) for scores in values.values()]))
    below, equal = {}, {}
    for name, scores in values.items():
        padded = np.concatenate([[0.0], _at_most(len(scores), n)])
        under, upto = (padded[np.searchsorted(np.sort(scores), every, side=side)] for side in ("left", "right"))
        below[name], equal[name] = under[:, None], (upto - under)[:, None]
    # E[1 / (1 + ties)] is the integral of prod(below + equal * z) over z from 0 to 1, exact with enough nodes
    nodes, weights = np.polynomial.legendre.leggauss(len(values) // 2 + 1)
    at = (nodes + 1) / 2
    shares = {}
    for name in values:
        others = np.ones((len(every), len(at)))
        for other in values:
            if other != name:
                others = others * (below[other] + equal[other] * at)
        shares[name] = float((equal[name][:, 0] * (others @ weights) / 2).sum())
    return shares


def importances(points: Mapping[str, Sequence[float]], values: Sequence[float]) -> dict[str, float] | None:
    """Share of each setting in the importance; None if there are too few trials, or if a forest predicts no better than
    the mean (measured out of bag).

    points: position of each setting in its range (0 to 1) in every trial.

    >>> tried = np.random.default_rng(0).random((2, 60))
    >>> shares = importances({"margin": tried[0], "scale": tried[1]}, tried[0])
    >>> shares["margin"] > 0.9
    True
    """
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.inspection import permutation_importance

    inputs, outputs = np.column_stack(list(points.values())), np.asarray(values)
    if len(outputs) < MIN_TRIALS or not np.ptp(outputs):
        return None
    forest = RandomForestRegressor(n_estimators=300, min_samples_leaf=2, oob_score=True, random_state=0)
    forest.fit(inputs, outputs)
    if forest.oob_score_ <= 0:
        return None
    increases = permutation_importance(forest, inputs, outputs, n_repeats=20, random_state=0).importances_mean.clip(0)
    total = increases.sum()
    return {key: float(share / total) for key, share in zip(points, increases, strict=True)} if total else None


def _at_most(count: int, n: int) -> np.ndarray:
    """P(the best of n is among the i lowest values) for i = 1 to `count`: C(i, n) / C(count, n)."""
    from scipy.special import gammaln

    ranks = np.arange(1, count + 1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        chosen = gammaln(ranks + 1) - gammaln(np.maximum(ranks - n, 0) + 1)
    full = chosen[-1]
    return np.where(ranks >= n, np.exp(chosen - full), 0.0)
