"""Error rates of the verdicts: leaderboards of equal methods, simulated and from real runs; rates of pairs.

`python benchmarks/calibration.py` writes benchmarks/results/calibration.json, the source of the tables in
docs/calibration.md. `--boards 200` is fast and rough. `--runs runs/again` adds the runs of a study with many seeds
(benchmarks/calibration.yaml): labels shuffled, and every method against itself.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from harness.enough import check_needed
from harness.leaderboards import METHODS, NOISES, Scenario, draw
from harness.peers import classes_only, oracle, percentile_bootstrap, percentile_interval, sign_flips
from harness.real_runs import against_itself, shuffled_labels
from harness.thresholds import measure_rate, rate_scenarios
from scipy.special import stdtrit

from levelfield.evaluation.statistics.comparisons import ALPHA, holm, p_values
from levelfield.evaluation.statistics.crossed import MIN_CLASSES, ScoreMoments
from levelfield.evaluation.statistics.intervals import figure_intervals

RESULTS = Path(__file__).parent / "results" / "calibration.json"
CLASSES = (2, 4, 5, 6, 8, 10, 20, 50, 100, 400, 774)
HIGHEST, AGAIN = 40, 2000  # scenarios with the most false verdicts to repeat, and leaderboards of each
UNEQUAL = ((2, 2, 3), (2, 2, 10), (2, 3, 10), (3, 2, 3), (3, 2, 10), (3, 3, 10), (10, 3, 5), (10, 3, 10))  # rows, seeds
SMALL = ((2, 0), (2, 1), (3, 0), (3, 1))  # boards of few rows: number of rows, and of untrained rows
PARTS = ("scenarios", "needed", "rates")
BOARDS, PEERS = 600, 100  # leaderboards per scenario, and per scenario for slower tests


def scenarios() -> list[Scenario]:
    """All combinations of numbers of classes and seeds, and further variations.

    A verdict from one seed applies only to these runs: without seed noise, equal methods are equal runs.
    """
    found = [Scenario(classes, 1, "none") for classes in CLASSES]
    found += [
        Scenario(classes, seeds, noise)
        for classes in CLASSES
        for seeds in (3, 5, 10)
        for noise in ("none", "moderate", "dominant")
    ]
    found += [Scenario(classes, 3, noise) for classes in (5, 10, 20, 100, 774) for noise in list(NOISES)[3:]]
    found += [
        Scenario(classes, 3, "moderate", level, shape, sizes)
        for classes in (5, 10, 50, 400)
        for level in (0.5, 0.95)
        for shape in ("normal", "skewed", "bimodal", "opposite")
        for sizes in ("equal", "unequal")
        if (level, shape, sizes) != (0.5, "normal", "equal")
    ]
    found += [
        Scenario(classes, seeds, noise, methods=rows, fixed=fixed)
        for rows, fixed in SMALL
        for classes in (5, 20, 100, 774)
        for seeds in (2, 3, 5, 10)
        for noise in ("moderate" if rows - fixed == 1 else "one method noisier", "dominant")
    ]
    found += [
        Scenario(classes, many, "one method noisier", methods=rows, fewer=few)
        for rows, few, many in UNEQUAL
        for classes in (20, 100, 774)
    ]
    return found


def measure(scenario: Scenario, boards: int = BOARDS, peers: int = PEERS, seed: int = 0) -> dict[str, Any]:
    """Share of leaderboards with a false verdict, and coverage of intervals; for S = 3 also of the other tests.

    One of hundreds of scenarios exceeds its limit by chance, so it is simulated again with four times as many
    leaderboards.
    """
    found = simulate(scenario, boards, peers, seed)
    return again(found, 4 * boards, seed + 1) if found["false_verdicts"] > limit(found["boards"]) else found


def again(found: dict[str, Any], boards: int, seed: int) -> dict[str, Any]:
    """The same scenario with more leaderboards and other random numbers."""
    return {**found, **simulate(scenario_of(found), boards, 0, seed)}


def confirmed(measured: list[dict[str, Any]], pool: ProcessPoolExecutor) -> list[dict[str, Any]]:
    """Repeat the scenarios with the highest shares with more leaderboards, because some are high by chance."""
    order = sorted(range(len(measured)), key=lambda number: -measured[number]["false_verdicts"])
    weak = [number for number in order[:HIGHEST] if measured[number]["boards"] < AGAIN]
    many, seeds = [AGAIN] * len(weak), [2026] * len(weak)
    known = dict(zip(weak, pool.map(again, [measured[number] for number in weak], many, seeds), strict=True))
    return [known.get(number, one) for number, one in enumerate(measured)]


def simulate(scenario: Scenario, boards: int, peers: int, seed: int) -> dict[str, Any]:
    began, truth = time.perf_counter(), scenario.truth
    random = np.random.default_rng([seed, *scenario_key(scenario)])
    wrong, held, shown, differences = 0, 0, 0, []
    for _ in range(boards if scenario.classes >= MIN_CLASSES else min(boards, 100)):
        table, _, _ = one_board(scenario, random)
        found = table.differences()
        wrong += min(holm(p_values(found))) < ALPHA
        differences.append(found.difference)
        bounds = [one for one in figure_intervals(table) if one is not None]
        shown += len(bounds)
        held += sum(one.low <= truth <= one.high for one in bounds)
    result = {
        **asdict(scenario),
        "boards": len(differences),
        "false_verdicts": wrong / len(differences),
        "covered": held / shown if shown else None,
    }
    ten = scenario.methods == METHODS and not scenario.fewer and scenario.shape == "normal" and scenario.level == 0.5
    if scenario.seeds == 3 and peers and ten:
        result |= compare_peers(scenario, np.std(differences, axis=0), peers, random, truth)
    return {**result, "seconds": round(time.perf_counter() - began, 1)}


def compare_peers(
    scenario: Scenario, error: np.ndarray, boards: int, random: np.random.Generator, truth: float
) -> dict[str, Any]:
    """The same error rates of the old test, and the power of each test without seed noise."""
    tests = ("crossed", "classes only", "sign flips", "oracle")
    wrong, power, held = 0, dict.fromkeys(tests, 0.0), 0.0
    level = 1 - ALPHA / (2 * len(error))
    gain = float(np.median(error[: scenario.methods - 1])) * (stdtrit(scenario.classes - 1, level) + 0.84)
    for _ in range(boards):
        _, values, queries = one_board(scenario, random)
        wrong += min(holm(percentile_bootstrap(values, queries))) < ALPHA
        low, high = percentile_interval(values, queries)
        held += ((low <= truth) & (truth <= high)).mean()
        if scenario.noise != "none":
            continue
        values[0] += gain
        for name, p in all_tests(values, queries, error).items():
            power[name] += np.mean([each < ALPHA for each in holm(p)[: scenario.methods - 1]])
    found = {"false_verdicts_before": wrong / boards, "covered_before": held / boards, "peers_boards": boards}
    return found | ({"power": {name: power[name] / boards for name in tests}} if scenario.noise == "none" else {})


def all_tests(values: np.ndarray, queries: np.ndarray, error: np.ndarray) -> dict[str, np.ndarray]:
    found = table_of(values, queries).differences()
    return {
        "crossed": p_values(found),
        "classes only": classes_only(values, queries),
        "sign flips": sign_flips(values, queries),
        "oracle": oracle(found.difference, error),
    }


def one_board(scenario: Scenario, random: np.random.Generator) -> tuple[ScoreMoments, np.ndarray, np.ndarray]:
    values, queries = draw(scenario, random)
    return table_of(values, queries, scenario.fixed, scenario.fewer), values, queries


def table_of(values: np.ndarray, queries: np.ndarray, fixed: int = 0, fewer: int = 0) -> ScoreMoments:
    """fixed: number of deterministic rows at the end, with one run each. fewer: seeds of the first row."""
    trained = len(values) - fixed
    rows = {str(method): seeds if method < trained else seeds[:1] for method, seeds in enumerate(values)}
    if fewer:
        rows["0"] = rows["0"][:fewer]
    return ScoreMoments.of(rows, queries, fixed=list(rows)[trained:])


def scenario_key(scenario: Scenario) -> list[int]:
    """Numbers that identify a scenario, for its random stream."""
    text = json.dumps(
        {key: value for key, value in asdict(scenario).items() if key != "fewer" or value}, sort_keys=True
    )
    return list(text.encode())


def scenario_of(found: dict[str, Any]) -> Scenario:
    return Scenario(**{key.name: found[key.name] for key in fields(Scenario) if key.name in found})


def limit(boards: int) -> float:
    """The largest share of false verdicts that is 5 % within two standard errors."""
    return ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / boards)


def faults(result: dict[str, Any]) -> list[str]:
    """Failed requirements: false verdicts, coverage, power, and the numbers needed to resolve ties."""
    found = []
    for one in result["scenarios"]:
        name = ", ".join(f"{key.name} {one[key.name]}" for key in fields(Scenario) if key.name in one)
        if one["false_verdicts"] > limit(one["boards"]):
            found.append(f"{name}: false verdicts {one['false_verdicts']:.3f}")
        if one["classes"] >= MIN_CLASSES and one["covered"] is not None and one["covered"] < 0.93:
            found.append(f"{name}: covered {one['covered']:.3f}")
        power = one.get("power", {}) if one["classes"] >= 50 and one["noise"] == "none" else {}
        if power and power["crossed"] < 0.85 * power["classes only"]:
            found.append(f"{name}: power {power['crossed']:.2f} of {power['classes only']:.2f}")
    for one in result["rates"]:
        if one["covered"] < 0.93:
            name = f"{one['kind']}, {one['classes']} classes, rate {one['rate']}, {one['shape']}, sizes {one['sizes']}"
            found.append(f"{name}: covered {one['covered']:.3f}")
    for one in result["needed"]:
        doubt = 2 * math.sqrt(0.8 * 0.2 / one["boards"])
        if not 0.75 - doubt <= one["power"] <= 0.9 + doubt:
            found.append(f"needed {one['missing']}: power {one['power']:.2f}")
    for one in result["runs"]:
        if one["false_verdicts"] > limit(one["boards"]):
            found.append(f"{one['kind']}, {one['method']}, {one['classes']} classes: {one['false_verdicts']:.3f}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--boards", type=int, default=BOARDS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", choices=PARTS, help="make this part again, and keep the others")
    parser.add_argument("--runs", type=Path, help="folder of a study with 6 or more seeds")
    asked = parser.parse_args()
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    result = {part: known.get(part, []) for part in (*PARTS, "runs")}
    wanted = [asked.only] if asked.only else PARTS
    with ProcessPoolExecutor(asked.jobs) as pool:
        if "scenarios" in wanted:
            every = scenarios()
            peers = [min(asked.boards, PEERS)] * len(every)
            result["scenarios"] = list(pool.map(measure, every, [asked.boards] * len(every), peers))
            result["scenarios"] = confirmed(result["scenarios"], pool)
        if "needed" in wanted:
            result["needed"] = list(pool.map(check_needed, range(4), [asked.boards] * 4))
        if "rates" in wanted:
            every_rate = rate_scenarios()
            result["rates"] = list(pool.map(measure_rate, every_rate, [asked.boards] * len(every_rate)))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if asked.runs is not None:
        result["runs"] = [*against_itself(asked.runs), *shuffled_labels(asked.runs)]
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    wrong = faults(result)
    many = len(result["scenarios"]) + len(result["rates"])
    print(f"{many} scenarios, {asked.boards} times each: {'all within bounds' if not wrong else ''}")
    print("\n".join(wrong))


if __name__ == "__main__":
    main()
