"""Write and read run folders."""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError, field_validator

from levelfield.errors import BadInput, Damaged, LevelfieldError
from levelfield.files.plain_yaml import read_written
from levelfield.files.reading import MEGABYTE, checksum, damaged, read_json, read_text
from levelfield.files.writing import write_json, write_text
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
from levelfield.studies.specification.locations import Location, location_of, placed
from levelfield.studies.specification.messages import explain

PLAN = "runs.json"
_PLAN_SIZE = 100 * MEGABYTE
_LONGEST = 200  # characters of a reason for failure


@dataclass(frozen=True)
class Result:
    """A finished run: scores with their signatures, cost, deviations."""

    folder: Path
    values: dict[str, float]
    signatures: dict[str, dict[str, Any]]
    seconds: float
    summary: dict[str, Any]
    deviations: list[dict[str, Any]]
    checksums: Checksums
    identity: str
    """Of run.yaml at the end of the run."""

    @property
    def deviation_texts(self) -> list[str]:
        return [entry["text"] for entry in self.deviations]

    def has_queries(self, metric: str) -> bool:
        """Whether the metric has a value per query (clustering metrics do not)."""
        return metric in self.by_class

    def per_query(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        """The metric of each query that counts, and the query's class."""
        leaves_out = self.signatures[metric]["definition"]["lone"] == "exclude"
        arrays = self.queries()
        kept = ~arrays["lone"] if leaves_out else np.ones(len(arrays["lone"]), bool)
        return arrays[metric][kept], arrays["labels"][kept]

    @cached_property
    def by_class(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """For every metric with a value per query: its mean in each test class, and the number of queries.

        Cached, because a leaderboard needs it often and it is much smaller than the per-query scores.
        """
        arrays, by_metric = self.queries(), {}
        coded: dict[bool, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        for metric in arrays.keys() & self.signatures.keys():
            leaves_out = self.signatures[metric]["definition"]["lone"] == "exclude"
            if leaves_out not in coded:
                kept = ~arrays["lone"] if leaves_out else np.ones(len(arrays["lone"]), bool)
                coded[leaves_out] = kept, *_coded(arrays["labels"][kept])
            kept, codes, counts = coded[leaves_out]
            sums = np.bincount(codes, weights=arrays[metric][kept], minlength=len(counts))
            by_metric[metric] = sums / counts, counts.astype(np.float64)
        return by_metric

    def queries(self) -> dict[str, np.ndarray]:
        """The stored scores of each query by metric, `lone` and `labels`."""
        return read_per_query(self.folder, self.checksums)


def _coded(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place of each query's class among the classes in their order, and how many queries each has.

    >>> codes, counts = _coded(np.array([7, 3, 7]))
    >>> codes.tolist(), counts.tolist()
    ([1, 0, 1], [1, 2])
    """
    if not labels.size or labels.max() > 10 * len(labels):
        _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
        return codes, counts
    counts = np.bincount(labels)  # nothing has to be sorted
    present = counts > 0
    return (labels, counts) if present.all() else ((np.cumsum(present) - 1)[labels], counts[present])


def claim(folder: Path, spec: RunSpec, made_by: dict[str, Any], *, home: Path | None = None) -> None:
    """Write the run's description, or refuse a folder made with another specification.

    made_by: versions and machine. home: where the folder will be, if it is not there yet.

    Damaged files are removed, with all files made from them, and made again; intact files are kept.
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
        return  # keep the versions that the run began with
    content = {"identity": spec.identity, **made_by, **spec.model_dump(mode="json")}
    if (location := location_of(spec.data, home or folder)) is not None:
        content["place"] = location.model_dump()
    write_text(described, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def read_spec(folder: Path) -> RunSpec:
    """The specification of a run folder."""
    described = folder / DESCRIBED
    if not described.exists():
        raise BadInput(f"{folder} is not a run folder: it has no run.yaml.")
    check(folder, DESCRIBED, checksums_of(folder))
    with of_a_run():
        content = read_written(described)
        if not isinstance(content, dict):
            raise damaged(described, "does not describe a run: it must have keys and values")
        try:
            return RunSpec.model_validate({key: value for key, value in content.items() if key in RunSpec.model_fields})
        except (ValidationError, LevelfieldError) as error:
            reason = explain(error, RunSpec, str(described)) if isinstance(error, ValidationError) else str(error)
            raise damaged(described, f"does not describe a run: {reason.rstrip('.')}") from error


def spec_at_its_place(folder: Path, spec: RunSpec | None = None) -> RunSpec:
    """The specification of a finished run, with the current location of its images. spec: if already read."""
    spec = read_spec(folder) if spec is None else spec
    stored = described_in(folder).get("place")
    where = None if stored is None else Location.model_validate(stored)
    return spec.model_copy(update={"data": placed(spec.data, folder, where)})


def is_finished(folder: Path, spec: RunSpec, metrics: tuple[str, ...]) -> bool:
    """Whether the folder holds this run, complete and intact, with all these metrics."""
    result, _ = finished_result(folder, spec, metrics)
    try:
        if result is not None:
            check_all(folder)
    except Damaged:
        return False
    return result is not None


def finished_result(folder: Path, spec: RunSpec, metrics: tuple[str, ...]) -> tuple[Result | None, str]:
    """The result of a run if it has all these metrics; else None and the reason: a failure or a damaged file."""
    try:
        result = read_result(folder)
        if result is None:
            return None, why_failed(folder)
        if _identity(result) != spec.identity or not set(metrics) <= set(result.values):
            return None, ""
        if result.values:
            _ = result.by_class  # reads and checks per_query.npz
    except Damaged as error:
        return None, str(error)
    return result, ""


def _identity(result: Result) -> str | None:
    """The identity of the run; from metrics.json, which is faster, if run.yaml has not changed."""
    folder, written = result.folder, result.checksums.get(DESCRIBED)
    if written and (folder / DESCRIBED).is_file() and checksum(folder / DESCRIBED) == written:
        return result.identity
    return recorded_identity(folder)


def why_failed(folder: Path) -> str:
    """The last line of error.txt of a failed run; empty if it is missing or unreadable."""
    try:
        lines = read_text(folder / FAILED).strip().splitlines()
    except Damaged:  # missing or unreadable: the run counts as missing either way
        return ""
    last = re.sub(r"^levelfield\.errors\.\w+: ", "", lines[-1]) if lines else ""
    printable = "".join(letter if letter.isprintable() else " " for letter in last)
    return printable if len(printable) <= _LONGEST else f"{printable[:_LONGEST]}..."


def read_result(folder: Path) -> Result | None:
    """The result of a run folder; None if it is not finished."""
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
        content["checksums"],
        content["identity"],
    )


def write_plan(study_folder: Path, runs: list[PlannedRun]) -> None:
    """Write the runs of a study, so that a report needs only its folder."""
    entries = [
        {"label": run.label, "variation": run.variation, "seeded": run.seeded, "spec": run.spec.model_dump(mode="json")}
        for run in runs
    ]
    write_json(study_folder / PLAN, entries)


def read_plan(study_folder: Path) -> list[PlannedRun]:
    """The runs of a compared study."""
    path = study_folder / PLAN
    if not os.path.lexists(path):
        raise BadInput(f"{study_folder} is not a study folder: it has no runs.json. Give a folder such as runs/demo.")
    with of_a_run():
        try:
            entries = TypeAdapter(list[_Planned]).validate_python(read_json(path, most=_PLAN_SIZE))
        except ValidationError as error:
            raise damaged(path, f"does not list runs: {explain_first(error)}") from error
        except Damaged:
            raise
        except LevelfieldError as error:
            raise damaged(path, f"does not list runs: {str(error).rstrip('.')}") from error
        return [
            PlannedRun(
                entry.spec,
                entry.label,
                tuple(entry.variation),
                entry.seeded,
            )
            for entry in entries
        ]


class _Planned(BaseModel):
    """An entry of runs.json."""

    label: str
    variation: list[tuple[str, Any]]
    seeded: bool
    spec: RunSpec

    @field_validator("label")
    @classmethod
    def _names_a_folder(cls, value: str) -> str:
        check_folder_name("label", value)
        return value


def _discard_damaged(folder: Path) -> None:
    """Remove damaged files, and the file that marks their stage as complete."""
    try:
        trained = read_training(folder) if os.path.lexists(folder / TRAINED) else None
        if trained is not None:
            check_made(folder, trained)
    except Damaged:
        folders = [name for name in MADE if (folder / name).is_dir()]  # in the way of a file
        for name in (FINISHED, TRAINED, DESCRIBED, *folders):  # last first: no stage stays wrongly marked as complete
            _remove(folder, name)
    try:
        result = read_result(folder)
        if result is not None and result.values:
            result.queries()
    except Damaged:
        _remove(folder, FINISHED)
        _remove(folder, PER_QUERY)


def _remove(folder: Path, name: str) -> None:
    """Remove a file; a folder in its place is renamed, since a user may have put files there."""
    path = folder / name
    if path.is_dir() and not path.is_symlink():
        aside = next(one for k in itertools.count() if not os.path.lexists(one := folder / f"{name}.damaged{k or ''}"))
        path.rename(aside)
    else:
        path.unlink(missing_ok=True)
