"""Write and read run folders, and the plan of a study folder."""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from levelfield.errors import BadInput, Damaged, LevelfieldError
from levelfield.files.plain_yaml import write_yaml
from levelfield.files.reading import MEGABYTE, damaged, read_json, read_text
from levelfield.files.writing import write_json
from levelfield.studies.runs.folder import files
from levelfield.studies.runs.spec import PlannedRun, RunSpec, described_in, recorded_identity
from levelfield.studies.specification.locations import Location, location_of, placed

PLAN = "runs.json"
_LONGEST = 200  # characters of a reason for failure
_RUNS = TypeAdapter(list[PlannedRun])


@dataclass(frozen=True)
class Result:
    """A finished run: scores with their signatures, cost, deviations."""

    folder: Path
    values: dict[str, float]
    signatures: dict[str, dict[str, Any]]
    summary: dict[str, Any]
    measured: dict[str, Any]  # counts of the ledger, see `Measured`
    deviations: list[dict[str, Any]]
    checksums: files.Checksums

    @property
    def seconds(self) -> float:
        return float(self.summary["seconds"])

    @property
    def deviation_texts(self) -> list[str]:
        return [entry["text"] for entry in self.deviations]

    def per_query(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        """The metric of each query that counts, and the query's class."""
        return self._counted(metric, self.queries())

    def _counted(self, metric: str, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        leaves_out = self.signatures[metric]["definition"]["lone"] == "exclude"
        counted = ~arrays["lone"] if leaves_out else slice(None)
        return arrays[metric][counted], arrays["labels"][counted]

    @cached_property
    def by_class(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """For every metric with a value per query: its mean in each test class, and the number of queries."""
        arrays = self.queries()
        metrics = arrays.keys() & self.signatures.keys()
        return {metric: class_means(*self._counted(metric, arrays)) for metric in metrics}

    def queries(self) -> dict[str, np.ndarray]:
        return files.read_per_query(self.folder, self.checksums)


def class_means(scores: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean score of each class, and its number of queries, in the order of the classes.

    >>> means, counts = class_means(np.array([1.0, 0.0, 0.0]), np.array([7, 3, 7]))
    >>> means.tolist(), counts.tolist()
    ([0.0, 0.5], [1.0, 2.0])
    """
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return np.bincount(codes, weights=scores) / counts, counts.astype(np.float64)


def claim(folder: Path, spec: RunSpec, made_by: dict[str, Any], *, home: Path | None = None) -> None:
    """Write the run's description, or refuse a folder made with another specification. Remove damaged files, with all
    files made from them.

    made_by: versions and machine. home: where the folder will be, if it is not there yet.
    """
    described = folder / files.DESCRIBED
    try:
        recorded = recorded_identity(folder) if os.path.lexists(described) else spec.identity
    except Damaged:
        recorded = spec.identity
        _remove(described)
    if recorded != spec.identity:
        raise BadInput(
            f"{folder} was made with another specification (its run.yaml says {recorded}, "
            f"this run is {spec.identity}). Choose another --out, or remove the folder."
        )
    try:
        if os.path.lexists(folder / files.TRAINED):
            files.check_made(folder)
    except Damaged:
        in_place_of_files = [name for name in (*files.MADE, files.PER_QUERY) if (folder / name).is_dir()]
        # last first: no stage stays wrongly marked as complete
        for name in (files.FINISHED, files.TRAINED, files.DESCRIBED, *in_place_of_files):
            _remove(folder / name)
    try:
        result = read_result(folder)
        if result is not None and result.values:
            result.queries()
    except Damaged:
        for name in (files.FINISHED, files.PER_QUERY):
            _remove(folder / name)
    if described.exists():
        return  # keep the versions that the run began with
    content = {"identity": spec.identity, **made_by, **spec.model_dump(mode="json")}
    if (location := location_of(spec.data, home or folder)) is not None:
        content["place"] = location.model_dump()
    write_yaml(described, content)


def _remove(path: Path) -> None:
    """Remove a file; a folder in its place is renamed, since a user may have put files there."""
    if path.is_dir() and not path.is_symlink():
        names = (path.with_name(f"{path.name}.damaged{number or ''}") for number in itertools.count())
        path.rename(next(name for name in names if not os.path.lexists(name)))
    else:
        path.unlink(missing_ok=True)


def read_spec(folder: Path) -> RunSpec:
    """The specification of a run folder."""
    if not (folder / files.DESCRIBED).exists():
        raise BadInput(f"{folder} is not a run folder: it has no run.yaml.")
    files.check(folder, files.DESCRIBED)
    content = described_in(folder, [files.DESCRIBED])
    return RunSpec.model_validate({key: value for key, value in content.items() if key in RunSpec.model_fields})


def spec_at_its_place(folder: Path, spec: RunSpec) -> RunSpec:
    """The specification of a finished run, with the current location of its images."""
    stored = described_in(folder).get("place")
    where = None if stored is None else Location.model_validate(stored)
    return spec.model_copy(update={"data": placed(spec.data, folder, where)})


def is_finished(folder: Path, spec: RunSpec, metrics: tuple[str, ...]) -> bool:
    """Whether the folder holds this run, complete and intact, with all these metrics."""
    result, _ = finished_result(folder, spec, metrics)  # has read and checked metrics.json and per_query.npz
    try:
        if result is not None:
            files.check_made(folder)
    except Damaged:
        return False
    return result is not None


def finished_result(folder: Path, spec: RunSpec, metrics: tuple[str, ...]) -> tuple[Result | None, str]:
    """The result of a run if it has all these metrics; else None and the reason: a failure or a damaged file."""
    try:
        result = read_result(folder)
        if result is None:
            return None, _why_failed(folder)
        if recorded_identity(folder) != spec.identity or not set(metrics) <= set(result.values):
            return None, ""
        if result.values:
            _ = result.by_class  # reads and checks per_query.npz
    except Damaged as error:
        return None, str(error)
    return result, ""


def _why_failed(folder: Path) -> str:
    try:
        lines = read_text(folder / files.FAILED).strip().splitlines()
    except Damaged:  # the run counts as missing either way
        return ""
    last = re.sub(r"^levelfield\.errors\.\w+: ", "", lines[-1]) if lines else ""
    printable = "".join(letter if letter.isprintable() else " " for letter in last)
    return printable if len(printable) <= _LONGEST else f"{printable[:_LONGEST]}..."


def read_result(folder: Path) -> Result | None:
    """The result of a run folder; None if it is not finished."""
    if not os.path.lexists(folder / files.FINISHED):
        return None
    content = files.read_finished(folder)
    names = ("values", "signatures", "summary", "measured", "deviations", "checksums")
    return Result(folder, *(content[name] for name in names))


def write_plan(study_folder: Path, runs: list[PlannedRun]) -> None:
    """Write the runs of a study, so that a report needs only its folder."""
    write_json(study_folder / PLAN, _RUNS.dump_python(runs, mode="json"))


def read_plan(study_folder: Path) -> list[PlannedRun]:
    """The runs of a compared study."""
    path = study_folder / PLAN
    if not os.path.lexists(path):
        raise BadInput(f"{study_folder} is not a study folder: it has no runs.json. Give a folder such as runs/demo.")
    with files.of_a_run():
        content = read_json(path, most=100 * MEGABYTE)
        try:
            return _RUNS.validate_python(content)
        except (ValidationError, LevelfieldError) as error:
            raise damaged(path, f"does not list runs: {files.explain_first(error)}") from error
