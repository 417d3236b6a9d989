"""The files of a run folder, each with a reader that validates it.

training.json is the last file of training, and metrics.json the last file of evaluation. Each holds a checksum of its
own content and those of the files written before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from levelfield.errors import BadInput, Damaged, LevelfieldError
from levelfield.files.arrays import read_array, read_arrays
from levelfield.files.reading import checksum, damaged, digest, read_json
from levelfield.files.writing import write_json, write_whole

TRAINED, FINISHED, PER_QUERY = "training.json", "metrics.json", "per_query.npz"
EMBEDDINGS, ITEMS = "embeddings.npy", "items.csv"
DESCRIBED = "run.yaml"
FAILED = "error.txt"  # written by a failed run
SPECTRA = "training_spectra.npz"
MADE = (DESCRIBED, EMBEDDINGS, ITEMS, "model.safetensors", "model.yaml", "method.safetensors", SPECTRA)
"""Files that training may write before training.json."""
REMEDY = "Run `levelfield compare` (or `ensemble`) to make it again."

Checksums = dict[str, str]


@contextmanager
def of_a_run() -> Iterator[None]:
    """Add to errors about damaged files how to make the run again."""
    try:
        yield
    except Damaged as error:
        raise error if REMEDY in str(error) else Damaged(f"{error} {REMEDY}") from error


def write_training(folder: Path, content: dict[str, Any]) -> None:
    _write_sealed(folder / TRAINED, content, MADE)


def write_finished(folder: Path, content: dict[str, Any]) -> None:
    _write_sealed(folder / FINISHED, content, (PER_QUERY,))


def read_training(folder: Path) -> dict[str, Any]:
    """The content of training.json: summary, measured, deviations."""
    return _read_sealed(folder / TRAINED)


def read_finished(folder: Path) -> dict[str, Any]:
    """The scores of a finished run with their signatures, and the content of training.json."""
    return _read_sealed(folder / FINISHED)


def read_per_query(folder: Path, checksums: Checksums) -> dict[str, np.ndarray]:
    """The scores of each query by metric, `lone` and `labels`. checksums: of metrics.json."""
    with of_a_run():
        check(folder, PER_QUERY, checksums)
        return read_arrays(folder / PER_QUERY)


def read_embeddings(folder: Path) -> np.ndarray:
    """The test embeddings (images, dim), memory-mapped."""
    with of_a_run():
        check(folder, EMBEDDINGS)
        return read_array(folder / EMBEDDINGS, kinds="f")


def write_spectra(folder: Path, rows: np.ndarray, labels: np.ndarray) -> float:
    """Normalise raw training rows (n, d), write their spectra (roth2020, section E), and return the decay rho."""
    from levelfield.evaluation import class_spectrum, spectral_decay, spectrum

    length = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    unit = rows / np.where(length > 0, length, 1)
    spectra: dict[str, Any] = {"spectrum": spectrum(unit), "class_spectrum": class_spectrum(unit, labels)}
    write_whole(folder / SPECTRA, lambda file: np.savez(file, **spectra))
    return spectral_decay(unit)


def read_spectrum(folder: Path, kind: str) -> np.ndarray:
    """A stored spectrum of a run: of all rows, or the mean over classes."""
    if not (folder / SPECTRA).exists():
        raise BadInput(f"{folder} has no {SPECTRA}: the run trains nothing.")
    with of_a_run():
        stored = read_arrays(folder / SPECTRA)
        if kind not in stored or stored[kind].ndim != 1:
            raise damaged(folder / SPECTRA, f"lacks '{kind}', or it is not a list of numbers")
        return stored[kind]


def check(folder: Path, name: str, checksums: Checksums | None = None) -> None:
    """Refuse a file whose checksum differs from the stored one, by default from that in training.json, if it exists."""
    with of_a_run():
        if checksums is None:
            checksums = read_training(folder)["checksums"] if (folder / TRAINED).exists() else {}
        if name in checksums and checksum(folder / name) != checksums[name]:
            raise damaged(folder / name, "is damaged: its checksum differs")


def check_made(folder: Path) -> None:
    """Refuse a trained run if a file written before training.json is damaged or missing."""
    checksums = read_training(folder)["checksums"]
    for name in checksums:
        check(folder, name, checksums)


def _write_sealed(path: Path, content: dict[str, Any], files: Sequence[str]) -> None:
    """Write JSON with its own checksum and those of the existing files beside it."""
    plain = {key: value for key, value in content.items() if key not in ("checksums", "checksum")}
    plain = json.loads(json.dumps(plain))  # as it will be read: with keys as text
    plain["checksums"] = {name: checksum(path.parent / name) for name in files if (path.parent / name).is_file()}
    write_json(path, {**plain, "checksum": _seal(plain)})


def _read_sealed(path: Path) -> dict[str, Any]:
    with of_a_run():
        content: Any = read_json(path)
        if not isinstance(content, dict) or not {"checksum", "checksums"} <= content.keys():
            raise damaged(path, "is not a file of a run: it has no checksums")
        if content.pop("checksum") != _seal(content):
            raise damaged(path, "is damaged: its checksum differs")
        return content


def _seal(content: dict[str, Any]) -> str:
    return digest(json.dumps(content, sort_keys=True), size=16)


def explain_first(error: ValidationError | LevelfieldError) -> str:
    """The message of an error; of a validation, that of the first one, with its location."""
    if isinstance(error, LevelfieldError):
        return str(error).rstrip(".")
    first = error.errors()[0]
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]])).rstrip(".")
