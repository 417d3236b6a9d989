"""A small calibration: equal methods are ties, and the former rule fails the same bounds."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from calibration import RESULTS, faults, limit, measure, one_board, table_of
from harness.enough import check_needed
from harness.leaderboards import Scenario
from harness.thresholds import RateScenario, measure_rate

from levelfield.evaluation.statistics.comparisons import ALPHA, holm, p_values

BOARDS = 150


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(5, 1, "none"),
        Scenario(10, 3),
        Scenario(20, 3, "dominant"),
        Scenario(60, 3, "one method noisier"),
        Scenario(60, 3, "half of them noisier"),
        Scenario(10, 3, "none", 0.95, "skewed", "unequal"),
        Scenario(20, 3, "none", 0.5, "bimodal", "unequal"),
        Scenario(100, 2, "dominant", methods=2, fixed=1),
        Scenario(100, 3, "dominant", methods=2, fixed=1),
        Scenario(100, 2, "one method noisier", methods=2),
        Scenario(100, 2, "one method noisier", methods=3, fixed=1),
        Scenario(400, 10, "one method noisier", methods=2, fewer=2),
    ],
    ids=lambda one: f"{one.methods}-{one.fixed}-{one.classes}-{one.seeds}-{one.fewer}-{one.noise}-{one.shape}",
)
def test_false_verdicts_and_coverage_are_within_bounds(scenario: Scenario) -> None:
    result = measure(scenario, BOARDS if scenario.methods > 3 else 4 * BOARDS, peers=0)
    assert result["false_verdicts"] <= limit(result["boards"])
    assert result["covered"] >= 0.93


@pytest.mark.parametrize(
    "scenario",
    [
        RateScenario("false non-matches", 5, 0.05, "alike", "unequal"),
        RateScenario("false non-matches", 20, 0.2, "a tenth is hard", "equal"),
        RateScenario("false non-matches", 200, 0.01, "few have most", "equal"),
        RateScenario("false matches", 5, 0.05, "a tenth are hubs", "equal"),
        RateScenario("false matches", 20, 0.01, "hubs of every size", "unequal"),
    ],
    ids=lambda one: f"{one.kind}-{one.classes}-{one.rate}-{one.shape}-{one.sizes}",
)
def test_intervals_of_pair_rates_hold_the_truth_where_percentiles_do_not(scenario: RateScenario) -> None:
    result = measure_rate(scenario, sets=300, before=100)
    assert result["covered"] >= 0.93 - 2 * math.sqrt(0.05 * 0.95 / 300)
    assert result["covered_before"] < 0.9


def test_a_true_difference_is_found() -> None:
    random = np.random.default_rng(2)
    power = 0.0
    for _ in range(40):
        _, values, queries = one_board(Scenario(100, 3), random)
        values[0] += 0.15
        power += np.mean([p < ALPHA for p in holm(p_values(table_of(values, queries).differences()))[:9]])
    assert power / 40 > 0.8


@pytest.mark.parametrize("case", [0, 1])
def test_the_number_that_would_resolve_a_tie_gives_about_80_per_cent_power(case: int) -> None:
    result = check_needed(case, 60)
    assert 0.65 < result["power"] < 0.95  # 60 leaderboards of 9 pairs that rise and fall together
    assert result["interval_holds"] > 0.9


def test_the_published_calibration_is_within_its_bounds() -> None:
    assert faults(json.loads(RESULTS.read_text(encoding="utf-8"))) == []
