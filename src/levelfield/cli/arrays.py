"""Arrays and labels from files, for `levelfield evaluate`. Nothing is ever unpickled."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from levelfield.errors import BadInput

_COLUMNS = ("label", "class")


def read_array(path: Path) -> np.ndarray:
    """The array of a .npy file, left on disk until it is needed."""
    try:
        loaded: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BadInput(f"{path} is no readable .npy file: {_reason(error)}") from error
    if not isinstance(loaded, np.ndarray):
        raise BadInput(f"{path} holds several arrays; a .npy file with one is needed.")
    return loaded


def read_labels(path: Path) -> np.ndarray:
    """Labels of a .npy file, of a text file with one on each line, or of a CSV's column `label` or `class`.

    A CSV with one column needs no heading. If all labels are whole numbers, they are read as such.
    """
    if path.suffix.lower() not in (".csv", ".txt"):
        return read_array(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            is_table = path.suffix.lower() == ".csv"
            lines = list(csv.reader(file)) if is_table else [[line.rstrip("\r\n")] for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is no readable list of labels: {error}") from error
    found = _column(path, lines)
    empty = next((number for number, label in enumerate(found) if not label), None)
    if not found or empty is not None:
        what = "holds no label" if not found else f"has no label in row {empty}"
        raise BadInput(f"{path} {what}: one for each embedding is needed.")
    labels = np.array(found)
    try:
        return labels.astype(np.int64)
    except (ValueError, OverflowError):
        return labels


def _column(path: Path, lines: list[list[str]]) -> list[str]:
    heading = [field.strip().lower() for field in lines[0]] if lines else []
    named = [place for place, field in enumerate(heading) if field in _COLUMNS]
    if not named and len(heading) > 1:
        raise BadInput(f"{path} has the columns {', '.join(heading)}: one of them has to be called label or class.")
    rows = lines[1:] if named and path.suffix.lower() == ".csv" else lines
    place = named[0] if named else 0
    return [line[place].strip() if place < len(line) else "" for line in rows]


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file."
    if "pickle" in str(error) or "Python objects" in str(error):
        return ("it holds Python objects, or is no array at all, and objects are never read, for they can run code. "
                "Save numbers or text: np.save('y.npy', labels.astype(str)).")
    return str(error)
