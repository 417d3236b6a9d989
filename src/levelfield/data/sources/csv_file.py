"""A CSV file of path and label; paths are relative to the file."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from levelfield.data._registry import DatasetFacts, register
from levelfield.data.catalog import Catalog
from levelfield.data.checks.readable import lone_note
from levelfield.data.sources._tables import natural
from levelfield.errors import BadInput, nearest
from levelfield.files.reading import MEGABYTE, read_text
from levelfield.files.writing import expanded
from levelfield.wording import plural

ROLES = ("train", "query", "gallery")
LARGEST = 1_000 * MEGABYTE  # bytes
LONGEST_LABEL = 255  # characters, the limit of a folder name
_COLUMNS = ("path", "label", "split", "role", "group")
_SPLITS = {"train": "train", "validation": "validation", "val": "validation", "test": "test"}


@dataclass(frozen=True)
class _Row:
    line: int
    path: Path
    label: str
    split: str
    role: str
    group: str


@register("csv", DatasetFacts(what="a CSV file: path,label (header optional; also split, role, group)", needs="path"))
def csv_file(path: Path | str) -> Catalog:
    """Classes in natural order, images in the order of the file. A missing file is an error, a repeated line a note."""
    source = expanded(path)
    rows, notes = _without_repeats(source, _rows(source))
    missing = [row for row in rows if not row.path.is_file()]
    if missing:
        shown = "\n".join(f"  line {row.line}: {row.path}" for row in missing[:5])
        more = f"\n  ... and {len(missing) - 5} more" if len(missing) > 5 else ""
        part = f"of {len(rows):,} files listed in {source}"
        message = plural(len(missing), f"{part} does not exist", f"{part} do not exist")
        raise BadInput(f"{message}:\n{shown}{more}\nPaths are relative to the CSV file.")
    class_names = sorted({row.label for row in rows}, key=natural)
    if len(class_names) < 2:
        raise BadInput(f"{source} has only one class, '{class_names[0]}'; at least two are needed.")
    number = {name: i for i, name in enumerate(class_names)}
    catalog = Catalog(
        name=source.stem,
        paths=tuple(row.path for row in rows),
        labels=np.array([number[row.label] for row in rows]),
        class_names=tuple(class_names),
        groups=_groups(source, rows, class_names),
        roles=tuple(row.role for row in rows) if any(row.role for row in rows) else None,
        split=_split(source, rows),
    )
    return catalog.with_notes(*notes, *lone_note(catalog))


def _rows(source: Path) -> list[_Row]:
    if not source.exists():
        folder = source.parent
        close = nearest(source.name, [entry.name for entry in folder.glob("*.csv")]) if folder.is_dir() else None
        raise BadInput(f"The file {source} does not exist." + (f" Did you mean {folder / close}?" if close else ""))
    text = read_text(source, most=LARGEST).removeprefix("\ufeff")  # Excel writes a byte order mark
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        cells = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise BadInput(f"{source}, line {reader.line_num}: {error}. Is a quotation mark missing?") from error
    cells = [(line, row) for line, row in cells if any(row)]
    if not cells:
        raise BadInput(f"{source} is empty. Each line needs a path and a label: cat/1.jpg,cat")
    columns, body = _columns(source, cells)
    if not body:
        raise BadInput(f"{source} has a header but no images.")
    return [_row(source, line, row, columns) for line, row in body]


def _columns(source: Path, cells: list[tuple[int, list[str]]]) -> tuple[dict[str, int], list[tuple[int, list[str]]]]:
    """The meaning of each column, and the lines below the header. Without a header: path, label."""
    header = [cell.lower() for cell in cells[0][1]]
    known = [name for name in _COLUMNS if name in header]
    if not known:
        return {"path": 0, "label": 1}, cells
    for needed in ("path", "label"):
        if needed not in header:
            raise BadInput(f"{source} has the columns {', '.join(header)}; the column '{needed}' is missing.")
    return {name: header.index(name) for name in known}, cells[1:]


def _row(source: Path, line: int, row: list[str], columns: dict[str, int]) -> _Row:
    values = {name: row[i] if i < len(row) else "" for name, i in columns.items()}
    if not values["path"] or not values["label"]:
        raise BadInput(f"{source}, line {line}: expected a path and a label, found {row}.")
    if "\0" in values["label"]:
        raise BadInput(f"{source}, line {line}: the label {values['label']!r} contains a NUL character.")
    if len(values["label"]) > LONGEST_LABEL:
        raise BadInput(
            f"{source}, line {line}: the label '{values['label'][:20]}...' has {len(values['label']):,} "
            f"characters; the limit is {LONGEST_LABEL}."
        )
    role = values.get("role", "").lower()
    if role and role not in ROLES:
        raise BadInput(f"{source}, line {line}: unknown role '{role}'; valid roles are {', '.join(ROLES)}.")
    split = values.get("split", "").lower()
    if split and split not in _SPLITS:
        raise BadInput(f"{source}, line {line}: unknown split '{split}'; valid values are train, validation, test.")
    path = expanded(values["path"])
    return _Row(
        line,
        path if path.is_absolute() else source.parent / path,
        values["label"],
        _SPLITS.get(split, ""),
        role,
        values.get("group", ""),
    )


def _without_repeats(source: Path, rows: list[_Row]) -> tuple[list[_Row], list[str]]:
    """Keep the first line of a repeated file, which would otherwise find itself. Two labels for one file are an
    error."""
    first: dict[Path, _Row] = {}
    for row in rows:
        other = first.setdefault(row.path, row)
        if other.label != row.label:
            raise BadInput(
                f"{source}: {row.path} has the label '{other.label}' in line {other.line} and "
                f"'{row.label}' in line {row.line}."
            )
    repeats = len(rows) - len(first)
    return list(first.values()), [f"{repeats:,} lines repeat an image and were ignored."] if repeats else []


def _split(source: Path, rows: list[_Row]) -> tuple[str, ...] | None:
    """The split of every image, or None; roles must not contradict it."""
    if not any(row.split for row in rows):
        return None
    for row in rows:
        if not row.split:
            raise BadInput(
                f"{source}, line {row.line}: this image has no split but others do; give one for every image "
                "or for none."
            )
        if row.role and (row.role == "train") != (row.split != "test"):
            raise BadInput(f"{source}, line {row.line}: the role '{row.role}' does not fit the split '{row.split}'.")
    return tuple(row.split for row in rows)


def _groups(source: Path, rows: list[_Row], class_names: list[str]) -> np.ndarray | None:
    if not any(row.group for row in rows):
        return None
    of_class: dict[str, str] = {}
    for row in rows:
        if of_class.setdefault(row.label, row.group) != row.group:
            raise BadInput(
                f"{source}, line {row.line}: the class '{row.label}' is in the groups "
                f"'{of_class[row.label]}' and '{row.group}'; a class needs one group."
            )
    # A class without a group is a group of its own.
    keys = [("group", of_class[name]) if of_class[name] else ("class", name) for name in class_names]
    number: dict[tuple[str, str], int] = {}
    return np.array([number.setdefault(key, len(number)) for key in keys])
