"""Official lists: text with columns, and MATLAB structures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from levelfield.errors import BadInput


def text_rows(
    file: Path, columns: int, *, skip: int = 0, header: str = "", last_takes_rest: bool = False
) -> list[list[str]]:
    """The rows of a text file, split at white space; a row with a different number of columns is an error.

    header: content of the last line that is skipped. last_takes_rest: the last column may contain spaces.
    """
    rows, lines = [], text_lines(file)
    if header and " ".join("".join(lines[skip - 1 : skip]).split()) != header:
        raise BadInput(f"{file} needs the header '{header}' in line {skip}.")
    for number, line in enumerate(lines[skip:], start=skip + 1):
        cells = line.strip().split(None, columns - 1 if last_takes_rest else -1)
        if cells and len(cells) != columns:
            count = f"expected {columns} columns, found {line.strip()!r}"
            raise BadInput(f"{file}, line {number}: {count}. Is the download complete?")
        if cells:
            rows.append(cells)
    return rows


def text_lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"Cannot read {file} as text: {error}.") from error


def whole(file: Path, text: str) -> int:
    """An integer id from a text file."""
    try:
        return int(text)
    except ValueError as error:
        raise BadInput(f"{file}: expected a number, found '{text}'.") from error


def matlab(file: Path, name: str, fields: tuple[str, ...]) -> list[dict[str, Any]]:
    """The struct array `name` of a MATLAB 5 file, each entry with these fields, found by name."""
    entries = matlab_values(file, name)
    have = entries.dtype.names or ()
    missing = [key for key in fields if key not in have]
    if missing:
        raise BadInput(f"'{name}' in {file} has no field '{missing[0]}', only {', '.join(have) or 'none'}.")
    return [{key: entry[key] for key in fields} for entry in entries]


def matlab_values(file: Path, name: str) -> np.ndarray:
    """The entries of the variable `name` of a MATLAB 5 file."""
    from scipy.io import loadmat

    try:
        content = loadmat(str(file), squeeze_me=True, variable_names=[name])
    except Exception as error:  # scipy raises almost anything on a damaged file
        raise BadInput(f"Cannot read {file} as a MATLAB file: {error}. Is the download complete?") from error
    if name not in content:
        raise BadInput(f"{file} has no variable '{name}'. Is the download complete?")
    return np.atleast_1d(content[name])
