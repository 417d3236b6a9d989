"""Leaderboards of equal methods from real runs of a study with many seeds: all verdicts must be ties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from harness.peers import percentile_bootstrap
from levelfield import evaluate
from levelfield.evaluation.statistics.comparisons import ALPHA, holm, p_values
from levelfield.evaluation.statistics.crossed import ScoreMoments
from levelfield.studies.leaderboard.entries import Entry, finished_entries
from levelfield.studies.runs.folder.items import Items
from levelfield.studies.runs.folder.store import read_plan

METRIC = "recall@1"
SEEDS = 3


def against_itself(study: Path, *, repeats: int = 400) -> list[dict[str, Any]]:
    """Every method against itself, in groups of three seeds: no group is better than another."""
    result = []
    for label, entries in _many_seeds(study).items():
        means = np.stack([entry.class_means(METRIC)[0] for entry in entries])
        queries = entries[0].class_means(METRIC)[1]
        for classes in (5, 10, 20, 50, 100, len(queries)):
            if classes <= len(queries):
                random = np.random.default_rng(classes)
                boards = [_dealt(means, queries, classes, random) for _ in range(repeats)]
                result.append({"kind": "a method against itself", "method": label, **_wrong(boards, classes)})
    return result


def shuffled_labels(study: Path, *, repeats: int = 200) -> list[dict[str, Any]]:
    """All methods, three seeds each, on few classes with shuffled labels: all are at chance level."""
    found = _many_seeds(study)
    stored = {label: [_embedded(entry) for entry in entries[:SEEDS]] for label, entries in found.items()}
    result = []
    for classes in (5, 10, 20, 50):
        random = np.random.default_rng(classes)
        boards = [_at_chance(stored, classes, random) for _ in range(repeats)]
        result.append({"kind": "labels shuffled", "method": "all", **_wrong(boards, classes)})
    return result


def _many_seeds(study: Path) -> dict[str, list[Entry]]:
    found, _ = finished_entries(read_plan(study), study, (METRIC,))
    return {label: entries for label, entries in found.items() if len(entries) >= 2 * SEEDS}


def _dealt(
    means: np.ndarray, queries: np.ndarray, classes: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    kept = random.choice(len(queries), classes, replace=False)
    order = random.permutation(len(means))
    count = len(means) // SEEDS
    return means[order[: count * SEEDS]].reshape(count, SEEDS, -1)[:, :, kept], queries[kept]


def _embedded(entry: Entry) -> tuple[np.ndarray, np.ndarray]:
    folder = entry.first.folder
    asked = Items.read(folder).arrays(np.load(folder / "embeddings.npy"), None)
    return np.asarray(asked["embeddings"]), np.asarray(asked["labels"])


def _at_chance(
    stored: dict[str, list[tuple[np.ndarray, np.ndarray]]], classes: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    labels = next(iter(stored.values()))[0][1]
    kept = np.isin(labels, random.choice(np.unique(labels), classes, replace=False))
    dealt = random.permutation(labels[kept])
    means = [
        [evaluate(rows[kept], dealt, metrics=[METRIC]).per_class(METRIC) for rows, _ in seeds]
        for seeds in stored.values()
    ]
    return np.array([[one.means for one in row] for row in means]), means[0][0].queries.astype(np.float64)


def _wrong(boards: list[tuple[np.ndarray, np.ndarray]], classes: int) -> dict[str, Any]:
    """Share of leaderboards with a false verdict, by this test and by the old one."""
    now = [
        min(holm(p_values(ScoreMoments.of(dict(enumerate(map(list, values))), queries).differences()))) < ALPHA  # type: ignore[arg-type]
        for values, queries in boards
    ]
    before = [min(holm(percentile_bootstrap(values, queries))) < ALPHA for values, queries in boards]
    return {
        "classes": classes,
        "rows": len(boards[0][0]),
        "boards": len(boards),
        "false_verdicts": float(np.mean(now)),
        "before": float(np.mean(before)),
    }
