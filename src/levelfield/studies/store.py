"""The store: what a run folder holds and how to read it back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from levelfield import methods
from levelfield.errors import BadInput
from levelfield.files import write_json, write_text
from levelfield.plain_yaml import read_written
from levelfield.registry import is_file_reference
from levelfield.studies.runs import PlannedRun, RunSpec, recorded_identity

FINISHED = "metrics.json"


@dataclass(frozen=True)
class Result:
    """A finished run: figures with their signatures, cost, deviations."""

    folder: Path
    values: dict[str, float]
    signatures: dict[str, dict[str, Any]]
    seconds: float
    summary: dict[str, Any]
    deviations: list[dict[str, Any]]

    @property
    def deviation_texts(self) -> list[str]:
        return [entry["text"] for entry in self.deviations]

    def has_queries(self, metric: str) -> bool:
        """Whether the metric has a value per query (a clustering has none)."""
        with np.load(self.folder / "per_query.npz") as arrays:
            return metric in arrays

    def per_query(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        """The metric of each query that counts, and the query's class."""
        leaves_out = self.signatures[metric]["definition"]["lone"] == "exclude"
        with np.load(self.folder / "per_query.npz") as arrays:
            kept = ~arrays["lone"] if leaves_out else np.ones(len(arrays["lone"]), bool)
            return arrays[metric][kept], arrays["labels"][kept]


def claim(folder: Path, spec: RunSpec, versions: dict[str, str]) -> None:
    """Write the run's description, or refuse a folder that was made with another specification."""
    described = folder / "run.yaml"
    if described.exists():
        if (recorded := recorded_identity(folder)) != spec.identity:
            raise BadInput(
                f"{folder} was made with another specification (its run.yaml says {recorded}, "
                f"this run is {spec.identity}). Choose another --out, or remove the folder."
            )
        return  # the versions it began with stay
    content = {"identity": spec.identity, "versions": versions, **spec.model_dump(mode="json")}
    write_text(described, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def read_spec(folder: Path) -> RunSpec:
    """The specification of a run folder."""
    described = folder / "run.yaml"
    if not described.exists():
        raise BadInput(f"{folder} is no run folder: it has no run.yaml.")
    content = read_written(described)
    return RunSpec.model_validate({key: value for key, value in content.items() if key in RunSpec.model_fields})


def is_finished(folder: Path, spec: RunSpec, metrics: tuple[str, ...]) -> bool:
    """Whether the folder holds this run's figures, all of them."""
    result = read_result(folder)
    return result is not None and recorded_identity(folder) == spec.identity and set(metrics) <= set(result.values)


def read_result(folder: Path) -> Result | None:
    """The figures of a run folder, or None if it is not finished (a damaged file is no finish)."""
    try:
        content = json.loads((folder / FINISHED).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return Result(
        folder,
        content["values"],
        content["signatures"],
        content["summary"]["seconds"],
        content["summary"],
        content["deviations"],
    )


def write_plan(study_folder: Path, runs: list[PlannedRun]) -> None:
    """Write down which runs a study consists of, so that a report needs nothing but its folder."""
    entries = [
        {"label": run.label, "variation": run.variation, "seeded": run.seeded, "spec": run.spec.model_dump(mode="json")}
        for run in runs
    ]
    write_json(study_folder / "runs.json", entries)


def read_plan(study_folder: Path) -> list[PlannedRun]:
    """The runs of a study that was compared before."""
    if not (study_folder / "runs.json").exists():
        raise BadInput(f"{study_folder} holds no study: it has no runs.json. A study's folder looks like runs/demo.")
    entries = json.loads((study_folder / "runs.json").read_text(encoding="utf-8"))
    return [
        PlannedRun(
            spec := RunSpec.model_validate(entry["spec"]),
            entry["label"],
            tuple((key, value) for key, value in entry["variation"]),
            bool(entry.get("seeded", _seeded(spec))),
        )
        for entry in entries
    ]


def _seeded(spec: RunSpec) -> bool:
    """As earlier versions did not write it down. Somebody's own file is not run to learn it."""
    name, settings = spec.method.name, spec.method.settings
    return is_file_reference(name) or (methods.is_seeded(name) and not methods.joins_seeds(name, settings))

