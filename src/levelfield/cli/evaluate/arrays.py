"""Read arrays and labels for `levelfield evaluate`. Nothing is ever unpickled."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from levelfield.errors import BadInput
from levelfield.files import arrays
from levelfield.files.reading import MEGABYTE, read_text

MOST = 1_000 * MEGABYTE  # bytes of a label file

_COLUMNS = ("label", "class")


def read_array(path: Path) -> np.ndarray:
    """The array of a .npy file, memory-mapped, or the only array of a .npz file."""
    _check_there(path)
    if path.suffix.lower() != ".npz":
        return arrays.read_array(path, kinds=arrays.PLAIN)
    found = arrays.read_arrays(path, kinds=arrays.PLAIN, compressed=True)
    if len(found) != 1:
        raise BadInput(
            f"{path} holds {len(found)} arrays ({', '.join(found)}) instead of one. Save one array alone: "
            "np.save('e.npy', array)."
        )
    return next(iter(found.values()))


def read_labels(path: Path) -> np.ndarray:
    """Labels of a .npy file, of a text file with one label per line, or of a CSV's column `label` or `class`.

    A CSV with one column needs no header. If all labels are integers, they are read as integers.
    """
    if path.suffix.lower() not in (".csv", ".txt"):
        return read_array(path)
    _check_there(path)
    text = read_text(path, most=MOST).removeprefix("\ufeff")
    is_table = path.suffix.lower() == ".csv"
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""))) if is_table else [[line] for line in text.splitlines()]
    except csv.Error as error:
        raise BadInput(f"Cannot read labels from {path}: {error}") from error
    found = _column(path, lines)
    empty = next((number for number, label in enumerate(found) if not label), None)
    if not found or empty is not None:
        what = "has no labels" if not found else f"has no label in row {empty}"
        raise BadInput(f"{path} {what}: give one label per embedding.")
    labels = np.array(found)
    try:
        return labels.astype(np.int64)
    except (ValueError, OverflowError):
        return labels


def _check_there(path: Path) -> None:
    if not path.exists():
        raise BadInput(f"File not found: {path}")


def _column(path: Path, lines: list[list[str]]) -> list[str]:
    heading = [field.strip().lower() for field in lines[0]] if lines else []
    named = [place for place, field in enumerate(heading) if field in _COLUMNS]
    if not named and len(heading) > 1:
        raise BadInput(f"{path} has the columns {', '.join(heading)}: one of them must be called label or class.")
    rows = lines[1:] if named and path.suffix.lower() == ".csv" else lines
    place = named[0] if named else 0
    return [line[place].strip() if place < len(line) else "" for line in rows]
