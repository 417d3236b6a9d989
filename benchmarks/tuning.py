"""What a search costs besides its trials, and what a sampler that learns is worth: `python benchmarks/tuning.py`.

Targets: asking and telling below 2 % of a demo-sized trial; two jobs at least 1.7 times one; TPE finds with half the
trials at least the expected best of random search on each of three stored surfaces (real trials of `levelfield tune
--sampler random`, kept in benchmarks/surfaces/).
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.evaluation.statistics.trials import best_of
from levelfield.ranges import Range
from levelfield.studies import read_study
from levelfield.tuning import Budget, Judge, SearchSettings, tune
from levelfield.tuning.samplers import NAMES, create

SURFACES = Path(__file__).parent / "surfaces"
BUDGETS = ((20, 10), (50, 25))  # trials of random search, and of a sampler that is to find as much with half
REPEATS = 40
MOST_OVERHEAD, LEAST_GAIN = 0.02, 1.7


def read_surface(path: Path) -> tuple[dict[str, Range], list[dict[str, Any]], np.ndarray]:
    """Ranges, settings and figures of a stored search. The first line has the ranges, the last column the figure."""
    with path.open() as file:
        heads, *lines = list(csv.reader(file))
    ranges = {}
    for head in heads[:-1]:
        key, _, text = head.partition("=")
        low, high, scale = text.split(":")
        ranges[key] = Range(float(low), float(high), scale == "log")
    settings = [dict(zip(ranges, map(float, line[:-1]), strict=True)) for line in lines]
    return ranges, settings, np.array([float(line[-1]) for line in lines])


def found_by(
    name: str, surface: tuple[dict[str, Range], list[dict[str, Any]], np.ndarray], seed: int, few: int
) -> float:
    """The best figure after `few` trials. The nearest unused stored trial answers what the sampler asks."""
    ranges, settings, values = surface
    points = np.array([[span.share(one[key]) for key, span in ranges.items()] for one in settings])
    left = np.ones(len(values), dtype=bool)
    sampler, best = create(name, ranges, seed=seed, trials=few), 0.0
    for _ in range(few):
        [asked] = sampler.ask(1)
        place = np.array([span.share(asked[key]) for key, span in ranges.items()])
        distance = np.where(left, ((points - place) ** 2).sum(axis=1), np.inf)
        nearest = int(distance.argmin())
        left[nearest] = False
        sampler.tell([float(values[nearest])])
        best = max(best, float(values[nearest]))
    return best


def compare_samplers() -> None:
    paths = sorted(SURFACES.glob("*.csv"))
    for path in paths:
        surface = read_surface(path)
        for many, few in BUDGETS:
            reference = best_of(surface[2].tolist(), many).expected
            print(f"{path.stem}: expected best of {many} random trials {reference:.4f} ({len(surface[2])} stored)")
            for name in ("tpe", "gp", "halton"):
                repeats = REPEATS if name != "gp" else REPEATS // 4
                found = np.array([found_by(name, surface, seed, few) for seed in range(repeats)])
                error = found.std(ddof=1) / len(found) ** 0.5
                told = "finds as much" if found.mean() >= reference else "does not find as much"
                print(f"  {name:7} with {few}: {found.mean():.4f} +- {error:.4f}: {told}")


def seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def overhead(trial: float) -> None:
    """Asking for 30 settings and telling 30 figures, per trial, against the time of one trial."""
    space = {key: Range(0.01, 1.0, log=True) for key in ("a", "b", "c", "d")}
    for name in NAMES:

        def search(name: str = name) -> None:
            made = create(name, space, seed=0, trials=30)
            for _ in range(8):
                asked = made.ask(4)
                made.tell([one["a"] for one in asked])

        search()  # what is imported on the first call is not counted
        each = seconds(search) / 32
        verdict = "good" if each / trial <= MOST_OVERHEAD else "TOO SLOW"
        print(f"asking and telling, {name:7} {each / trial:8.4f} of a trial; at most {MOST_OVERHEAD}: {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", default=500, type=int, help="steps of a trial; the demo has 500")
    steps = parser.parse_args().steps
    compare_samplers()
    methods = "methods=[contrastive, triplet]"
    study = read_study("demo", [methods, f"conditions.steps={steps}", "metrics=[recall@1]"])
    with tempfile.TemporaryDirectory() as scratch:

        def search(name: str, trials: int, jobs: int) -> None:
            settings = SearchSettings(budget=Budget(trials=trials), judge=Judge(), sampler="halton")
            tune(study, Path(scratch) / name, settings, jobs=jobs)

        first = seconds(lambda: search("first", 1, 1))
        again = seconds(lambda: search("again", 1, 1))
        print(f"the first trials with features to compute: {first / again:.2f} times the same trials with stored ones")
        one, two = seconds(lambda: search("one", 5, 1)), seconds(lambda: search("two", 5, 2))
        verdict = "good" if one / two >= LEAST_GAIN else "TOO SLOW"
        print(f"two jobs: {one / two:.2f} times one; at least {LEAST_GAIN}: {verdict}")
        finished = seconds(lambda: search("one", 5, 1))
        print(f"a finished search, asked again: {finished / one:.3f} of it")
        overhead(one / 10)


if __name__ == "__main__":
    main()
