"""Scores of the same methods on several datasets: from a study that varies its data, or from several studies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from levelfield.errors import BadInput
from levelfield.evaluation.metrics.registry import ranking
from levelfield.studies.leaderboard.entries import Entry, finished_entries, mean_score
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
    names: dict[str, str] = {}  # by test set
    for folder in folders:
        entries, missing = finished_entries(read_plan(folder), folder, (metric,))
        if not entries:
            raise BadInput(
                f"{folder} has no finished run with the metric {metric}: run `levelfield compare` with it, "
                "or choose another --metric."
            )
        notes += [f"{folder}: {len(missing)} runs are missing ({'; '.join(missing[:3])})."] if missing else []
        for test_set, methods in _by_test_set(entries).items():
            plain = name = Path(next(iter(methods.values()))[0].run.spec.data.name).name
            for number in itertools.count(1):  # with the study's name if another one uses the dataset, too
                if name not in scores:
                    break
                name = f"{plain} ({folder.name})" + (f" #{number}" if number > 1 else "")
            if test_set in names:
                other = names[test_set]
                notes.append(f"{name} and {other} use the same test images, so they are not independent datasets.")
            names.setdefault(test_set, name)
            scores[name] = {method: mean_score(seeds, metric) for method, seeds in methods.items()}
    labels = dict.fromkeys(method for figures in scores.values() for method in figures)
    lacking = {method: [name for name, figures in scores.items() if method not in figures] for method in labels}
    notes += [
        f"{method} is excluded: it has no finished run on {', '.join(without)}."
        for method, without in lacking.items()
        if without
    ]
    shared = [method for method, without in lacking.items() if not without]
    return Across(metric, {name: {m: figures[m] for m in shared} for name, figures in scores.items()}, notes)


def _by_test_set(entries: dict[str, list[Entry]]) -> dict[str, dict[str, list[Entry]]]:
    """Entries by test set and method (its label and varied keys other than the data)."""
    sets: dict[str, dict[str, list[Entry]]] = {}
    for run_entries in entries.values():
        run = run_entries[0].run
        varied = [(key, value) for key, value in run.variation if key.split(".")[0] not in ELSEWHERE]
        sets.setdefault(run_entries[0].test_set, {})[replace(run, variation=tuple(varied)).row] = run_entries
    return sets
