"""The expected best of n trials and winning shares, against all searches that are possible with the trials."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from levelfield.evaluation.statistics.trials import best_of, winning


@pytest.mark.parametrize("seed", range(8))
def test_the_expected_best_is_the_mean_over_all_searches(seed: int) -> None:
    draw = random.Random(seed)
    values = [draw.choice([0.1, 0.2, 0.3, 0.5]) for _ in range(6)]
    for n in range(1, 7):
        every = [max(chosen) for chosen in itertools.combinations(values, n)]
        found = best_of(values, n)
        assert found.expected == pytest.approx(np.mean(every))
        assert (found.low, found.high) == tuple(np.quantile(every, [0.025, 0.975], method="inverted_cdf"))


@pytest.mark.parametrize("seed", range(8))
def test_ties_share_the_win_among_all_methods_that_have_them(seed: int) -> None:
    draw = random.Random(seed)
    values = {label: [draw.choice([0.1, 0.2, 0.3]) for _ in range(draw.randint(3, 4))] for label in "abcd"}
    n = 1 + seed % 3
    wins = dict.fromkeys(values, 0.0)
    searches = list(itertools.product(*(list(itertools.combinations(found, n)) for found in values.values())))
    for search in searches:
        best = dict(zip(values, map(max, search), strict=True))
        winners = [label for label in best if best[label] == max(best.values())]
        for label in winners:
            wins[label] += 1 / len(winners) / len(searches)
    assert winning(values, n) == pytest.approx(wins)
