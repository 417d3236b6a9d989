"""Entries of a leaderboard: for each row and seed, the finished runs that count as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from levelfield.evaluation.statistics.crossed import ScoreMoments
from levelfield.studies.runs.folder.store import Result, finished_result
from levelfield.studies.runs.spec import PlannedRun


@dataclass(frozen=True)
class Entry:
    """One seed of a row: a run, or all members of a method, whose scores are averaged ("separated").

    Intervals are over seeds or test classes, never over members.
    """

    run: PlannedRun
    results: list[Result]

    @property
    def seed(self) -> int:
        return self.run.spec.seed

    @property
    def test_set(self) -> str:
        """Identifies the test images."""
        return f"{self.run.spec.data_digest} {self.run.spec.protocol}"

    def value(self, metric: str) -> float:
        return float(np.mean([result.values[metric] for result in self.results]))

    def class_means(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        """The metric of each test class, and its number of queries."""
        means_and_counts = [result.by_class[metric] for result in self.results]
        return np.mean([means for means, _ in means_and_counts], axis=0), means_and_counts[-1][1]


def finished_entries(
    runs: Iterable[PlannedRun], study_folder: Path, metrics: tuple[str, ...]
) -> tuple[dict[str, list[Entry]], list[str]]:
    """The entries of every row, and the missing runs. A seed counts once all its members are finished."""
    reasons: dict[str, str] = {}  # of failed and damaged runs
    together: dict[tuple[str, int], list[tuple[PlannedRun, Result | None]]] = {}
    for run in runs:
        folder = run.folder(study_folder)
        result, reason = finished_result(folder, run.spec, metrics)
        together.setdefault((run.row, run.spec.seed), []).append((run, result))
        reasons[run.title] = f": {reason.rstrip('.')}" if reason else ""
    entries_by_row: dict[str, list[Entry]] = {}
    missing = []
    for (row, _), pairs in together.items():
        results = [result for _, result in pairs if result is not None]
        missing += [f"{run.title}{reasons[run.title]}" for run, result in pairs if result is None]
        if len(results) == len(pairs):
            entries_by_row.setdefault(row, []).append(Entry(pairs[0][0], results))
    return entries_by_row, missing


def mean_score(entries: Iterable[Entry], metric: str) -> float:
    """Mean over seeds."""
    return float(np.mean([entry.value(metric) for entry in entries]))


def mean_cost(entries: Iterable[Entry], name: str) -> float | None:
    """Mean recorded cost of one member; None if a run could not record it."""
    costs = [result.summary.get(name) for entry in entries for result in entry.results]
    known = [cost for cost in costs if cost is not None]
    return float(np.mean(known)) if len(known) == len(costs) else None


def paired(first: list[Entry], second: list[Entry]) -> list[tuple[Entry, Entry]]:
    """Entries of two rows by seed, for the seeds that both have. A deterministic row is paired with every seed."""
    if not first[0].run.seeded or not second[0].run.seeded:
        return [(a, b) for a in first for b in second]
    return [(a, b) for a in first for b in second if a.seed == b.seed]


def class_table(entries_by_row: Mapping[str, list[Entry]], metric: str) -> ScoreMoments:
    """Class means of every row for the crossed test; a deterministic row has no variance over seeds."""
    table: dict[str, np.ndarray] = {}
    weights: np.ndarray = np.zeros(0)
    for label, entries in entries_by_row.items():
        means, counts = zip(*(entry.class_means(metric) for entry in entries), strict=True)
        table[label], weights = np.stack(means), counts[-1]
    fixed = [label for label, entries in entries_by_row.items() if not entries[0].run.seeded]
    return ScoreMoments.of(table, weights, fixed=fixed)


def kept_start(results: Iterable[Result]) -> tuple[int, int]:
    """Among runs whose step was chosen on validation classes: how many kept the start, and how many there are."""
    chosen = [result.summary["best_step"] for result in results if result.summary.get("history")]
    return chosen.count(0), len(chosen)
