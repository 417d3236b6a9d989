"""Check the estimated seeds or classes needed to resolve a tie: 80 % power, and coverage of the interval."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from harness.leaderboards import Scenario, draw
from levelfield.evaluation.statistics.comparisons import ALPHA, Comparison, holm, joint, p_values
from levelfield.evaluation.statistics.crossed import Differences, ScoreMoments, Variance
from levelfield.evaluation.statistics.needed import Needed, needed

# missing factor, size of the study, and difference in standard errors
CASES = (
    ("seeds", Scenario(200, 3, "dominant"), 2.0),
    ("classes", Scenario(40, 3, "none"), 2.0),
    ("classes", Scenario(40, 3, "moderate", sizes="unequal"), 2.0),
    ("seeds", Scenario(200, 3, "dominant", methods=2), 1.5),
)


def check_needed(case: int, boards: int) -> dict[str, Any]:
    """The number from average variances, the power of a study of that size, and the coverage of intervals."""
    missing, scenario, errors = CASES[case]
    random = np.random.default_rng(case)
    pilots = [_table(scenario, random) for _ in range(max(boards // 4, 50))]
    found = [pilot.differences() for pilot in pilots]
    others = scenario.methods - 1
    gain = errors * float(np.std([one.difference[:others] for one in found]))
    number = _number(_average(found, gain), missing, len(found[0].difference))
    size = {missing: number}
    power = np.mean([_found(replace(scenario, **size), gain, random) for _ in range(boards)])
    said = [one for pilot in found for one in joint([_shifted(pilot, gain, others)])[:others] if one.missing == missing]
    held = [_holds(one, missing, number) for one in said]
    return {
        "missing": missing,
        "classes": scenario.classes,
        "seeds": scenario.seeds,
        "methods": scenario.methods,
        "noise": scenario.noise,
        "sizes": scenario.sizes,
        "difference": gain,
        "number": number,
        "power": float(power),
        "interval_holds": float(np.mean(held)),
        "boards": boards,
    }


def _table(scenario: Scenario, random: np.random.Generator, gain: float = 0.0) -> ScoreMoments:
    values, queries = draw(scenario, random)
    values[0] += gain
    return ScoreMoments.of({str(method): rows for method, rows in enumerate(values)}, queries)


def _average(found: list[Differences], gain: float) -> Differences:
    """One pair with the average variances of many studies, and the true difference."""
    names = ("classes", "seeds", "residual", "total", "freedom", "seeds_freedom")
    parts = [np.array([np.mean([getattr(one.variance, name) for one in found])]) for name in names]
    return replace(
        found[0],
        first=found[0].first[:1],
        second=found[0].second[:1],
        difference=np.array([gain]),
        variance=Variance(*parts),
        tested=np.array([True]),
        retrained=np.array([True]),
    )


def _number(one: Differences, missing: str, pairs: int) -> int:
    said, seeds, classes = needed(one, np.zeros(1), np.array([ALPHA / pairs]), np.array([True]))[0]
    number = seeds if missing == "seeds" else classes
    assert isinstance(number, Needed), said
    return number.number


def _found(scenario: Scenario, gain: float, random: np.random.Generator) -> float:
    """Share of the other methods that the first one beats significantly."""
    corrected = holm(p_values(_table(scenario, random, gain).differences()))
    return float(np.mean([p < ALPHA for p in corrected[: scenario.methods - 1]]))


def _shifted(found: Differences, gain: float, others: int) -> Differences:
    moved = found.difference.copy()
    moved[:others] += gain
    return replace(found, difference=moved)


def _holds(one: Comparison, missing: str, number: int) -> bool:
    said = one.needed_seeds if missing == "seeds" else one.needed_classes
    return said is not None and said.low <= number <= (said.high or np.inf)
