"""The store: what a run folder holds and how to read it back."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError, field_validator

from levelfield import methods
from levelfield.contents import MEGABYTE, checksum, damaged, read_json, read_text
from levelfield.errors import BadInput, Damaged, LevelfieldError
from levelfield.files import write_json, write_text
from levelfield.plain_yaml import read_written
from levelfield.registry import is_file_reference
from levelfield.studies.runs.folder.files import (
    DESCRIBED,
    FAILED,
    FINISHED,
    MADE,
    PER_QUERY,
    TRAINED,
    Checksums,
    check,
    check_all,
    check_made,
    checksums_of,
    explain_first,
    of_a_run,
    read_finished,
    read_per_query,
    read_training,
)
from levelfield.studies.runs.spec import PlannedRun, RunSpec, described_in, recorded_identity
from levelfield.studies.specification.choices import check_folder_name
from levelfield.studies.specification.locations import Place, place_of, placed
from levelfield.studies.specification.messages import explain

PLAN = "runs.json"
_PLAN_SIZE = 100 * MEGABYTE
_LONGEST = 200  # characters of a reason


@dataclass(frozen=True)
class Result:
    """A finished run: figures with their signatures, cost, deviations."""

    folder: Path
    values: dict[str, float]
    signatures: dict[str, dict[str, Any]]
    seconds: float
    summary: dict[str, Any]
    deviations: list[dict[str, Any]]
    checksums: Checksums = field(default_factory=dict)
    identity: str | None = None  # of run.yaml when it was finished; earlier versions did not write it

    @property
    def deviation_texts(self) -> list[str]:
        return [entry["text"] for entry in self.deviations]

    def has_queries(self, metric: str) -> bool:
        """Whether the metric has a value per query (a clustering has none)."""
        return metric in self.by_class

    def per_query(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        """The metric of each query that counts, and the query's class."""
        leaves_out = self.signatures[metric]["definition"]["lone"] == "exclude"
        arrays = self.queries()
        kept = ~arrays["lone"] if leaves_out else np.ones(len(arrays["lone"]), bool)
        return arrays[metric][kept], arrays["labels"][kept]

    @cached_property
    def by_class(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Of every metric with a value per query: its mean in each test class, and the class's number of queries.

        Read once and kept, since a leaderboard asks often: this is small, and what is stored of queries is not.
        """
        arrays, found = self.queries(), {}
        coded: dict[bool, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        for metric in arrays.keys() & self.signatures.keys():
            leaves_out = self.signatures[metric]["definition"]["lone"] == "exclude"
            if leaves_out not in coded:
                kept = ~arrays["lone"] if leaves_out else np.ones(len(arrays["lone"]), bool)
                _, codes, counts = np.unique(arrays["labels"][kept], return_inverse=True, return_counts=True)
                coded[leaves_out] = kept, codes, counts
            kept, codes, counts = coded[leaves_out]
            sums = np.bincount(codes, weights=arrays[metric][kept], minlength=len(counts))
            found[metric] = sums / counts, counts.astype(np.float64)
        return found

    def queries(self) -> dict[str, np.ndarray]:
        """The figures of each query by metric, `lone` and `labels`, as they are stored."""
        return read_per_query(self.folder, self.values, self.signatures, self.checksums)


def claim(folder: Path, spec: RunSpec, versions: dict[str, str]) -> None:
    """Write the run's description, or refuse a folder that was made with another specification.

    What is damaged is removed, with all that was made from it: it is made again, and what is sound is not.
    """
    described = folder / DESCRIBED
    try:
        recorded = recorded_identity(folder) if os.path.lexists(described) else spec.identity
    except Damaged:
        recorded = spec.identity
        _remove(folder, DESCRIBED)
    if recorded != spec.identity:
        raise BadInput(
            f"{folder} was made with another specification (its run.yaml says {recorded}, "
            f"this run is {spec.identity}). Choose another --out, or remove the folder."
        )
    _discard_damaged(folder)
    if described.exists():
        return  # the versions it began with stay
    content = {"identity": spec.identity, "versions": versions, **spec.model_dump(mode="json")}
    if (place := place_of(spec.data, folder)) is not None:
        content["place"] = place.model_dump()
    write_text(described, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def read_spec(folder: Path) -> RunSpec:
    """The specification of a run folder."""
    described = folder / DESCRIBED
    if not described.exists():
        raise BadInput(f"{folder} is no run folder: it has no run.yaml.")
    check(folder, DESCRIBED, checksums_of(folder))
    with of_a_run():
        content = read_written(described)
        if not isinstance(content, dict):
            raise damaged(described, "describes no run: keys and values are needed")
        try:
            return RunSpec.model_validate({key: value for key, value in content.items() if key in RunSpec.model_fields})
        except (ValidationError, LevelfieldError) as error:
            told = explain(error, RunSpec, str(described)) if isinstance(error, ValidationError) else str(error)
            raise damaged(described, f"describes no run: {told.rstrip('.')}") from error


def spec_at_its_place(folder: Path, spec: RunSpec | None = None) -> RunSpec:
    """The specification of a finished run, with its images where they are now. spec: if it is known already."""
    spec = read_spec(folder) if spec is None else spec
    stored = described_in(folder).get("place")
    where = None if stored is None else Place.model_validate(stored)
    return spec.model_copy(update={"data": placed(spec.data, folder, where)})


def is_finished(folder: Path, spec: RunSpec, metrics: tuple[str, ...]) -> bool:
    """Whether the folder holds this run, whole and sound, with all these figures."""
    result, _ = finished_result(folder, spec, metrics)
    try:
        if result is not None:
            check_all(folder)
    except Damaged:
        return False
    return result is not None


def finished_result(folder: Path, spec: RunSpec, metrics: tuple[str, ...]) -> tuple[Result | None, str]:
    """The figures of a run if all of these are there; else None, and why: the run failed, or a file is damaged."""
    try:
        result = read_result(folder)
        if result is None:
            return None, why_failed(folder)
        if _identity(result) != spec.identity or not set(metrics) <= set(result.values):
            return None, ""
        if result.values:
            _ = result.by_class  # reads and checks the queries' file
    except Damaged as error:
        return None, str(error)
    return result, ""


def _identity(result: Result) -> str | None:
    """What the run was made with. As long as run.yaml is what it was, metrics.json says it, and is read faster."""
    folder, written = result.folder, result.checksums.get(DESCRIBED)
    if result.identity and written and (folder / DESCRIBED).is_file() and checksum(folder / DESCRIBED) == written:
        return result.identity
    return recorded_identity(folder)


def why_failed(folder: Path) -> str:
    """The last line of error.txt, which a failed run leaves; empty if there is none that can be read."""
    try:
        lines = read_text(folder / FAILED).strip().splitlines()
    except Damaged:  # there is none, or it cannot be read: the run counts as missing either way
        return ""
    printable = "".join(letter if letter.isprintable() else " " for letter in lines[-1]) if lines else ""
    return printable if len(printable) <= _LONGEST else f"{printable[:_LONGEST]}..."


def read_result(folder: Path) -> Result | None:
    """The figures of a run folder; None if it is not finished."""
    if not os.path.lexists(folder / FINISHED):
        return None
    content = read_finished(folder)
    return Result(
        folder,
        content["values"],
        content["signatures"],
        content["summary"]["seconds"],
        content["summary"],
        content["deviations"],
        content.get("checksums", {}),
        content.get("identity"),
    )


def write_plan(study_folder: Path, runs: list[PlannedRun]) -> None:
    """Write down which runs a study consists of, so that a report needs nothing but its folder."""
    entries = [
        {"label": run.label, "variation": run.variation, "seeded": run.seeded, "spec": run.spec.model_dump(mode="json")}
        for run in runs
    ]
    write_json(study_folder / PLAN, entries)


def read_plan(study_folder: Path) -> list[PlannedRun]:
    """The runs of a study that was compared before."""
    path = study_folder / PLAN
    if not os.path.lexists(path):
        raise BadInput(f"{study_folder} holds no study: it has no runs.json. A study's folder looks like runs/demo.")
    with of_a_run():
        try:
            entries = TypeAdapter(list[_Planned]).validate_python(read_json(path, most=_PLAN_SIZE))
        except ValidationError as error:
            raise damaged(path, f"lists no runs: {explain_first(error)}") from error
        except Damaged:
            raise
        except LevelfieldError as error:
            raise damaged(path, f"lists no runs: {str(error).rstrip('.')}") from error
        return [
            PlannedRun(
                entry.spec,
                entry.label,
                tuple(entry.variation),
                _seeded(entry.spec) if entry.seeded is None else entry.seeded,
            )
            for entry in entries
        ]


def _seeded(spec: RunSpec) -> bool:
    """As earlier versions did not write it down. Somebody's own file is not run to learn it."""
    name, settings = spec.method.name, spec.method.settings
    return is_file_reference(name) or (methods.kind_of(name).seeded and not methods.joins_seeds(name, settings))


class _Planned(BaseModel):
    """An entry of runs.json."""

    label: str
    variation: list[tuple[str, Any]]
    seeded: bool | None = None
    spec: RunSpec

    @field_validator("label")
    @classmethod
    def _names_a_folder(cls, value: str) -> str:
        check_folder_name("label", value)
        return value


def _discard_damaged(folder: Path) -> None:
    """Remove what is damaged, and the file that says that the stage it belongs to is over."""
    try:
        trained = read_training(folder) if os.path.lexists(folder / TRAINED) else None
        if trained is not None:
            check_made(folder, trained)
    except Damaged:
        folders = [name for name in MADE if (folder / name).is_dir()]  # no file could take their place
        for name in (FINISHED, TRAINED, DESCRIBED, *folders):  # what comes last first: no claim is left that is false
            _remove(folder, name)
    try:
        result = read_result(folder)
        if result is not None and result.values:
            result.queries()
    except Damaged:
        _remove(folder, FINISHED)
        _remove(folder, PER_QUERY)


def _remove(folder: Path, name: str) -> None:
    """A file; a folder that stands in its place is moved aside, since somebody may have put things there."""
    path = folder / name
    if path.is_dir() and not path.is_symlink():
        aside = next(one for k in itertools.count() if not os.path.lexists(one := folder / f"{name}.damaged{k or ''}"))
        path.rename(aside)
    else:
        path.unlink(missing_ok=True)
