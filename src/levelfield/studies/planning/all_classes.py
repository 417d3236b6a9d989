"""Train on every class, with the number of steps that validation classes chose in compared runs."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from statistics import median
from typing import Any

from levelfield.errors import BadSpecification
from levelfield.studies.runs.folder.store import read_plan, read_result


def chosen_steps(study_folder: Path, labels: Set[str]) -> int:
    """The number of steps that the validation classes chose for these methods: the median over their runs."""
    runs = [run for run in read_plan(study_folder) if run.label in labels] if study_folder.is_dir() else []
    results = [result for run in runs if (result := read_result(run.folder(study_folder))) is not None]
    found: list[int] = [result.summary["best_step"] for result in results if result.summary.get("history")]
    if not found:
        raise BadSpecification(
            "--all-classes leaves no validation classes, and no compared run has chosen the number of steps: run "
            "`levelfield compare` first, or set conditions.select=budget."
        )
    return round(median(found))


def without_validation(conditions: dict[str, Any], steps: int) -> dict[str, Any]:
    """The conditions for training a fixed number of steps, without selection.

    >>> without_validation({"steps": 200, "select": "map@r", "patience": 2}, 30)
    {'steps': 30, 'select': 'budget', 'patience': None}
    """
    gone = ("validate_start", "min_delta")
    kept = {key: value for key, value in conditions.items() if key not in gone}
    return kept | {"steps": max(1, steps), "select": "budget", "patience": None}
