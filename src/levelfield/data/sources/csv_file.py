"""A CSV file of path and label; paths are relative to the file."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import NamedTuple

import numpy as np

from levelfield.data._registry import DatasetFacts, register
from levelfield.data.catalog import Catalog
from levelfield.data.checks.readable import lone_note
from levelfield.data.images import similar
from levelfield.errors import BadInput
from levelfield.files.reading import MEGABYTE, read_text
from levelfield.files.writing import expanded
from levelfield.wording import first_few, natural, plural

ROLES = ("train", "query", "gallery")
LARGEST = 1_000 * MEGABYTE  # bytes
LONGEST_LABEL = 255  # characters, the limit of a folder name
_COLUMNS = ("path", "label", "role", "split", "group")
_SPLITS = {"train": "train", "validation": "validation", "val": "validation", "test": "test"}


class _Row(NamedTuple):
    where: str  # file and line, for messages
    path: Path
    label: str
    split: str
    role: str
    group: str


@register("csv", DatasetFacts(what="a CSV file: path,label (header optional; also split, role, group)", needs="path"))
def csv_file(path: Path | str) -> Catalog:
    """Classes in natural order, images in the order of the file. A missing file is an error, a repeated line a note."""
    source = expanded(path)
    listed = _rows(source)
    rows = _without_repeats(listed)
    missing = [f"  {row.where.rpartition(', ')[2]}: {row.path}" for row in rows if not row.path.is_file()]
    if missing:
        part = f"of {len(rows):,} files listed in {source}"
        message = plural(len(missing), f"{part} does not exist", f"{part} do not exist")
        raise BadInput(f"{message}:\n{first_few(missing, chr(10))}\nPaths are relative to the CSV file.")
    class_names = sorted({row.label for row in rows}, key=natural)
    if len(class_names) < 2:
        raise BadInput(f"{source} has only one class, '{class_names[0]}'; at least two are needed.")
    number = {name: i for i, name in enumerate(class_names)}
    catalog = Catalog(
        name=source.stem,
        paths=tuple(row.path for row in rows),
        labels=np.array([number[row.label] for row in rows]),
        class_names=tuple(class_names),
        groups=_groups(rows, class_names),
        roles=tuple(row.role for row in rows) if any(row.role for row in rows) else None,
        split=_split(rows),
    )
    repeats = len(listed) - len(rows)
    notes = [f"{repeats:,} lines repeat an image and were ignored."] if repeats else []
    return catalog.with_notes(*notes, *lone_note(catalog))


def _rows(source: Path) -> list[_Row]:
    if not source.exists():
        raise BadInput(f"The file {source} does not exist.{similar(source)}")
    text = read_text(source, most=LARGEST).removeprefix("\ufeff")  # Excel writes a byte order mark
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        cells = [(f"{source}, line {reader.line_num}", [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise BadInput(f"{source}, line {reader.line_num}: {error}. Is a quotation mark missing?") from error
    cells = [(where, row) for where, row in cells if any(row)]
    if not cells:
        raise BadInput(f"{source} is empty. Each line needs a path and a label: cat/1.jpg,cat")
    columns = [cell.lower() for cell in cells[0][1]]
    if {*_COLUMNS}.isdisjoint(columns):
        columns = ["path", "label"]
    else:
        for name in ("path", "label"):
            if name not in columns:
                raise BadInput(f"{source} has the columns {', '.join(columns)}; the column '{name}' is missing.")
        del cells[0]
    if not cells:
        raise BadInput(f"{source} has a header but no images.")
    return [_row(source.parent, where, row, dict(zip(columns, row, strict=False))) for where, row in cells]


def _row(folder: Path, where: str, row: list[str], values: dict[str, str]) -> _Row:
    path, label, role, split, group = (values.get(name, "") for name in _COLUMNS)
    role, split = role.lower(), split.lower()
    if not path or not label:
        raise BadInput(f"{where}: expected a path and a label, found {row}.")
    if "\0" in label:
        raise BadInput(f"{where}: the label {label!r} contains a NUL character.")
    if len(label) > LONGEST_LABEL:
        size = f"{len(label):,} characters; the limit is {LONGEST_LABEL}"
        raise BadInput(f"{where}: the label '{label[:20]}...' has {size}.")
    for column, value, valid in (("role", role, ROLES), ("split", split, tuple(_SPLITS))):
        if value and value not in valid:
            raise BadInput(f"{where}: unknown {column} '{value}'; valid values are {', '.join(valid)}.")
    return _Row(where, folder / expanded(path), label, _SPLITS.get(split, ""), role, group)


def _without_repeats(rows: list[_Row]) -> list[_Row]:
    """Keep the first line of a repeated file, which would otherwise find itself. Two labels for one file are an
    error."""
    first: dict[Path, _Row] = {}
    for row in rows:
        other = first.setdefault(row.path, row)
        if other.label != row.label:
            labels = f"the label '{row.label}' here and '{other.label}' in {other.where.rpartition(', ')[2]}"
            raise BadInput(f"{row.where}: {row.path} has {labels}.")
    return list(first.values())


def _split(rows: list[_Row]) -> tuple[str, ...] | None:
    """The split of every image, or None; roles must not contradict it."""
    if not any(row.split for row in rows):
        return None
    for row in rows:
        if not row.split:
            raise BadInput(f"{row.where}: this image has no split but others do; give one for every image or for none.")
        if row.role and (row.role == "train") != (row.split != "test"):
            raise BadInput(f"{row.where}: the role '{row.role}' does not fit the split '{row.split}'.")
    return tuple(row.split for row in rows)


def _groups(rows: list[_Row], class_names: list[str]) -> np.ndarray | None:
    if not any(row.group for row in rows):
        return None
    of_class: dict[str, str] = {}
    for row in rows:
        group = of_class.setdefault(row.label, row.group)
        if group != row.group:
            groups = f"'{group}' and '{row.group}'"
            raise BadInput(f"{row.where}: the class '{row.label}' is in the groups {groups}; a class needs one group.")
    # A class without a group is a group of its own.
    keys = [("group", of_class[name]) if of_class[name] else ("class", name) for name in class_names]
    number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return np.array([number[key] for key in keys])
