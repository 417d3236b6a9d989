"""Importance of settings: increase of a model's prediction error when one setting is shuffled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

FEWEST = 10  # minimum number of trials for a model


def importances(points: Mapping[str, Sequence[float]], values: Sequence[float]) -> dict[str, float] | None:
    """Share of each setting in the importance; None if there are too few trials, or if a forest predicts no better than
    the mean (measured out of bag).

    points: position of each setting in its range (0 to 1) in every trial.

    >>> tried = np.random.default_rng(0).random((2, 60))
    >>> found = importances({"margin": tried[0], "scale": tried[1]}, tried[0])
    >>> found["margin"] > 0.9
    True
    """
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.inspection import permutation_importance

    inputs, outputs = np.column_stack(list(points.values())), np.asarray(values)
    if len(outputs) < FEWEST or not np.ptp(outputs):
        return None
    forest = RandomForestRegressor(n_estimators=300, min_samples_leaf=2, oob_score=True, random_state=0)
    forest.fit(inputs, outputs)
    if forest.oob_score_ <= 0:
        return None
    found = permutation_importance(forest, inputs, outputs, n_repeats=20, random_state=0).importances_mean.clip(0)
    total = found.sum()
    return {key: float(share / total) for key, share in zip(points, found, strict=True)} if total else None
