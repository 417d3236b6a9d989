"""The files of a run folder, each with a reader that validates it.

training.json is the last file of training, and metrics.json the last file of evaluation. Each holds a checksum of its
own content and those of the files written before it.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from levelfield.errors import Damaged
from levelfield.evaluation import Signature
from levelfield.files.arrays import read_array, read_arrays
from levelfield.files.reading import MEGABYTE, checksum, damaged, read_json, read_text
from levelfield.files.writing import write_json

TRAINED, FINISHED, PER_QUERY, EMBEDDINGS, ITEMS = (
    "training.json",
    "metrics.json",
    "per_query.npz",
    "embeddings.npy",
    "items.csv",
)
DESCRIBED = "run.yaml"
FAILED = "error.txt"  # written by a failed run
MADE = (
    DESCRIBED,
    EMBEDDINGS,
    ITEMS,
    "model.safetensors",
    "model.yaml",
    "method.safetensors",
    "training_spectra.npz",
)
"""Files that training may write before training.json."""
REMEDY = "Run `levelfield compare` (or `ensemble`) to make it again."

_ITEMS_SIZE, _ITEMS_LINES = 100 * MEGABYTE, 5 * MEGABYTE

Count = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Amount = Annotated[float, Field(strict=True)]  # may be infinite or nan: rho of rows that are all equal
Cost = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Checksums = dict[str, str]


class _Form(BaseModel):
    model_config = ConfigDict(extra="allow")


class _Watched(_Form):
    """Scores on the test classes during training."""

    step: Count
    metric: str
    train: Amount
    test: Amount


class _Judged(_Form):
    """Scores on the validation classes during training."""

    step: Count
    value: Amount


class _Summary(_Form):
    step: Count
    seconds: Cost
    collapsed: Annotated[bool, Field(strict=True)]
    idle_batches: Count
    planning: Cost = 0.0
    peak_bytes: Cost | None = None
    images: Cost | None = None
    rows_through_trunk: Cost | None = None
    weights: Cost | None = None
    operations: Cost | None = None
    rho_train: Amount | None = None
    monitored: list[_Watched] = []
    history: list[_Judged] = []
    best_step: Count | None = None
    computed_by: list[str] = []

    @model_validator(mode="after")
    def _has_a_best_step(self) -> _Summary:
        if self.history and self.best_step is None:
            raise ValueError("a run with a history must have a best step")
        return self


class _Deviation(_Form):
    what: str
    text: str


class _Measured(_Form):
    dim: Count
    members: Annotated[int, Field(strict=True, ge=1, lt=2**31)] = 1
    bits: Count = 32
    passes: Amount | None = None
    images: Count = 0
    steps: Count = 0
    extra_parameters: Count = 0
    rows_through_trunk: Count = 0
    memory_rows: Count = 0
    rows_changed: Count = 0
    refined: str = ""


class _Sealed(_Form):
    summary: _Summary
    deviations: list[_Deviation]
    checksums: Checksums
    checksum: str


class _Trained(_Sealed):
    measured: _Measured


class _Finished(_Sealed):
    values: dict[str, Annotated[float, Field(strict=True)]]
    signatures: dict[str, Signature]
    identity: str


_SIGNATURES = TypeAdapter(dict[str, Signature])


@contextmanager
def of_a_run() -> Iterator[None]:
    """Add to errors about damaged files how to make the run again."""
    try:
        yield
    except Damaged as error:
        raise error if REMEDY in str(error) else Damaged(f"{error} {REMEDY}") from error


def write_training(folder: Path, content: dict[str, Any]) -> None:
    """Write training.json, which ends training."""
    _write_sealed(folder / TRAINED, content, MADE)


def write_finished(folder: Path, content: dict[str, Any]) -> None:
    """Write metrics.json, which finishes a run."""
    _write_sealed(folder / FINISHED, content, (PER_QUERY, DESCRIBED))


def read_training(folder: Path) -> dict[str, Any]:
    """The content of training.json: summary, measured, deviations."""
    with of_a_run():
        content: dict[str, Any] = _read_sealed(folder / TRAINED, _Trained)
        for one in content["deviations"]:
            if one["what"] == "trunk_passes" and not isinstance(one.get("method"), int | float):
                raise damaged(folder / TRAINED, "has a deviation 'trunk_passes' without a number")
        return content


def checksums_of(folder: Path) -> Checksums:
    """Checksums of the files written before training.json; empty during training."""
    checksums: Checksums = read_training(folder)["checksums"] if (folder / TRAINED).exists() else {}
    return checksums


def read_finished(folder: Path) -> dict[str, Any]:
    """The scores of a finished run with their signatures, and the content of training.json."""
    with of_a_run():
        path = folder / FINISHED
        content: dict[str, Any] = _read_sealed(path, _Finished)
        signatures = _SIGNATURES.validate_python(content["signatures"])
        watched = {look["metric"] for look in content["summary"].get("monitored", [])}
        for name in [*content["values"], *(watched if content["values"] else ())]:
            if name not in signatures or name not in content["values"]:
                raise damaged(path, f"lacks a value or the signature of '{name}'")
        return content


def read_per_query(
    folder: Path, values: dict[str, float], signatures: dict[str, dict[str, Any]], checksums: Checksums
) -> dict[str, np.ndarray]:
    """The scores of each query by metric, `lone` and `labels`. The other arguments come from metrics.json."""
    path = folder / PER_QUERY
    with of_a_run():
        check(folder, PER_QUERY, checksums)
        found = read_arrays(path)
        for name in ("lone", "labels"):
            if name not in found:
                raise damaged(path, f"lacks '{name}'")
        queries = {name: array for name, array in found.items() if name != "all_labels"}
        shapes = {array.shape for array in queries.values()}
        if shapes != {(len(found["labels"]),)}:
            raise damaged(path, f"has arrays of different shapes: {', '.join(map(str, sorted(shapes)))}")
        kinds = {name: array.dtype.kind for name, array in found.items()}
        if kinds.pop("lone") != "b" or {kinds.pop("labels"), kinds.pop("all_labels", "i")} != {"i"}:
            raise damaged(path, "must have integer labels and a boolean `lone`")
        if found["labels"].size and found["labels"].min() < 0:
            raise damaged(path, "has negative labels")
        for name in queries.keys() & signatures.keys() & values.keys():
            _check_mean(path, name, found, values[name], signatures[name]["definition"])
        return found


def _check_mean(
    path: Path, metric: str, found: dict[str, np.ndarray], value: float, definition: dict[str, Any]
) -> None:
    """Refuse per-query scores whose mean differs from the score of the run."""
    kept = found[metric] if definition["lone"] != "exclude" else found[metric][~found["lone"]]
    if definition["average"] == "query" and len(kept) and not _alike(mean := float(kept.mean()), value):
        raise damaged(path, f"has a mean {metric} of {mean:.6g}, but {FINISHED} says {value:.6g}")


def _alike(mean: float, value: float) -> bool:
    """As `np.isclose` says, which takes ten times as long for one number.

    >>> nan, inf = math.nan, math.inf
    >>> _alike(0.5, 0.500014), _alike(0.5, 0.500016), _alike(nan, nan), _alike(0.5, nan), _alike(0.5, inf)
    (True, False, True, False, False)
    """
    if not math.isfinite(value):
        return mean == value or (math.isnan(mean) and math.isnan(value))
    return abs(mean - value) <= 1e-5 + 1e-5 * abs(value)


def read_items(folder: Path, checksums: Checksums) -> tuple[list[str], list[str], list[str] | None]:
    """Paths, classes and, if there is a gallery, roles of the test images."""
    path = folder / ITEMS
    with of_a_run():
        check(folder, ITEMS, checksums)
        text = read_text(path, most=_ITEMS_SIZE)
        if text.count("\n") > _ITEMS_LINES:
            raise damaged(path, f"has more than {_ITEMS_LINES:,} lines")
        try:
            head, *lines = list(csv.reader(io.StringIO(text, newline=""))) or [[]]
        except csv.Error as error:
            raise damaged(path, f"is not a table: {error}") from error
        if head not in (["path", "class"], ["path", "class", "role"]):
            raise damaged(path, "is not a table of test images: its first line must be path,class or path,class,role")
        wrong = next((k for k, line in enumerate(lines, 2) if len(line) != len(head)), None)
        if wrong is not None:
            raise damaged(path, f"has {len(lines[wrong - 2])} fields in row {wrong} instead of {len(head)}")
        if not lines:
            raise damaged(path, "lists no images")
        columns = [list(column) for column in zip(*lines, strict=True)]
        roles = columns[2] if len(head) == 3 else None
        if roles is not None and not set(roles) == {"query", "gallery"}:
            raise damaged(path, "must have both roles, query and gallery, and no others")
        return columns[0], columns[1], roles


def read_embeddings(folder: Path, checksums: Checksums) -> np.ndarray:
    """The test embeddings (images, dim), memory-mapped."""
    with of_a_run():
        check(folder, EMBEDDINGS, checksums)
        rows = read_array(folder / EMBEDDINGS, kinds="f")
        if rows.ndim != 2 or not rows.shape[1]:
            raise damaged(folder / EMBEDDINGS, f"has shape {rows.shape}; it must have one row per image")
        return rows


def check_rows(folder: Path, rows: np.ndarray, images: int) -> None:
    """Refuse embeddings whose number differs from that of the test images."""
    if len(rows) != images:
        with of_a_run():
            raise damaged(folder / EMBEDDINGS, f"has {len(rows):,} rows, but {ITEMS} lists {images:,} images")


def check(folder: Path, name: str, checksums: Checksums) -> None:
    """Refuse a file whose checksum differs from the stored one."""
    with of_a_run():
        if name in checksums and checksum(folder / name) != checksums[name]:
            raise damaged(folder / name, "is damaged: its checksum differs")


def check_all(folder: Path) -> None:
    """Refuse a finished run with a damaged file."""
    finished = read_finished(folder)
    check_made(folder, read_training(folder))
    if finished["signatures"]:
        read_per_query(folder, finished["values"], finished["signatures"], finished["checksums"])


def check_made(folder: Path, trained: dict[str, Any]) -> None:
    """Refuse a trained run if a file written before training.json is damaged."""
    for name, expected in trained["checksums"].items():
        if name in MADE:
            check(folder, name, {name: expected})
    if os.path.lexists(folder / ITEMS) or os.path.lexists(folder / EMBEDDINGS):  # there are test images
        check_rows(folder, read_embeddings(folder, {}), len(read_items(folder, {})[0]))


def _write_sealed(path: Path, content: dict[str, Any], files: Sequence[str]) -> None:
    """Write JSON with its own checksum and those of the existing files beside it."""
    plain = {key: value for key, value in content.items() if key not in ("checksums", "checksum")}
    plain = json.loads(json.dumps(plain))  # as it will be read: with keys as text
    plain["checksums"] = {name: checksum(path.parent / name) for name in files if (path.parent / name).is_file()}
    write_json(path, {**plain, "checksum": _seal(plain)})


def _read_sealed(path: Path, form: type[_Sealed]) -> Any:
    content = read_json(path)
    try:
        form.model_validate(content)
    except ValidationError as error:
        raise damaged(path, f"is invalid: {explain_first(error)}") from error
    if content.pop("checksum") != _seal(content):
        raise damaged(path, "is damaged: its checksum differs")
    return content


def explain_first(error: ValidationError) -> str:
    """The first validation error, with its location."""
    first = error.errors()[0]
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]])).rstrip(".")


def _seal(content: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()
