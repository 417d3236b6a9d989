"""Which setting matters: how much worse a model of the trials predicts when one setting is shuffled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

FEWEST = 10  # trials below which a model of them says nothing


def importances(points: Mapping[str, Sequence[float]], values: Sequence[float]) -> dict[str, float] | None:
    """The share of each setting; None where too few trials were made, or where a forest predicts no better than the
    mean (measured on trials that each tree has not seen).

    points: for each setting its place in the range (0 to 1) in every trial.

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
