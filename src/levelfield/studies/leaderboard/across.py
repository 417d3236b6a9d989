"""Scores of the same methods on several datasets: from a study that varies its data, or from several studies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from levelfield.errors import BadInput
from levelfield.evaluation.metrics.registry import ranking
from levelfield.studies.leaderboard.entries import Entry, finished_entries
from levelfield.studies.runs.folder.store import read_plan
from levelfield.studies.specification.yaml_file import read_study

ELSEWHERE = ("data", "protocol")  # varied keys that make another dataset, not another method


@dataclass(frozen=True)
class Across:
    """The metric of each method on each dataset, mean over seeds, for methods that all datasets have.

    notes: excluded methods with the reason, and warnings.
    """

    metric: str
    table: dict[str, dict[str, float]]
    notes: list[str] = field(default_factory=list)


def across(folders: Sequence[Path], metric: str | None = None) -> Across:
    """Gather the finished runs of study folders by dataset and method."""
    metric = metric or ranking(read_study(folders[0] / "study.yaml").metrics)[0]
    scores: dict[str, dict[str, float]] = {}
    notes: list[str] = []
    seen: dict[str, str] = {}
    for folder in folders:
        entries, missing = finished_entries(read_plan(folder), folder, (metric,))
        if not entries:
            raise BadInput(
                f"{folder} has no finished run with the metric {metric}: run `levelfield compare` with it, "
                "or choose another --metric."
            )
        notes += [f"{folder}: {len(missing)} runs are missing ({'; '.join(missing[:3])})."] if missing else []
        for same, methods in _by_dataset(entries).items():
            name = _unused(next(iter(methods.values()))[0].run.spec.data.name, folder, scores)
            if same in seen:
                notes.append(f"{name} and {seen[same]} use the same test images, so they are not independent datasets.")
            seen.setdefault(same, name)
            scores[name] = {
                method: float(np.mean([entry.value(metric) for entry in own])) for method, own in methods.items()
            }
    table, left_out = _shared(scores)
    return Across(metric, table, notes + left_out)


def _shared(scores: dict[str, dict[str, float]]) -> tuple[dict[str, dict[str, float]], list[str]]:
    """The methods that all datasets have, and a note for each other method."""
    lacking = {
        method: [name for name, figures in scores.items() if method not in figures]
        for figures in scores.values()
        for method in figures
    }
    shared = [method for method, names in lacking.items() if not names]
    notes = [
        f"{method} is excluded: it has no finished run on {', '.join(names)}."
        for method, names in lacking.items()
        if names
    ]
    return {name: {method: own[method] for method in shared} for name, own in scores.items()}, notes


def _by_dataset(entries: dict[str, list[Entry]]) -> dict[str, dict[str, list[Entry]]]:
    """Entries by test set and method (its label and varied keys other than the data)."""
    sets: dict[str, dict[str, list[Entry]]] = {}
    for own in entries.values():
        run = own[0].run
        varied = "".join(f" [{key.split('.')[-1]}={value}]" for key, value in run.variation if _makes_a_method(key))
        method = f"{run.label}{varied}" + (" (separated)" if run.spec.is_part else "")
        sets.setdefault(f"{run.spec.data_digest} {run.spec.protocol}", {})[method] = own
    return sets


def _makes_a_method(key: str) -> bool:
    return key.split(".")[0] not in ELSEWHERE


def _unused(name: str, folder: Path, taken: dict[str, dict[str, float]]) -> str:
    """A unique name for the dataset: its own, plus the study's if another study uses it, too."""
    name = Path(name).name
    if name in taken:
        name = f"{name} ({folder.name})"
    number = 2
    while name in taken:
        name, number = f"{name.rpartition(' #')[0] or name} #{number}", number + 1
    return name
