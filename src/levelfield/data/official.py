"""Read benchmarks from their official files, and compare the counts with the official ones.

A benchmark is located by its folder, the parent folder, the archives in it, or one archive.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from levelfield.data._registry import DatasetFacts, describe, register
from levelfield.data._registry import names as every
from levelfield.data.archives import is_archive, unpacked
from levelfield.data.catalog import Catalog
from levelfield.data.checks.readable import lone_note
from levelfield.data.images import files_below, is_image, similar
from levelfield.errors import BadInput, MissingData, unknown
from levelfield.files.writing import expanded
from levelfield.wording import first_few, plural

ClassId = int | str
_ROLES = ("query", "gallery")
DEPTH, WIDTH = 3, 50  # folders below the root that are searched: how deep, and how many of a folder
HEIGHT = 2  # folders above it
VARIABLE = "LEVELFIELD_DATA"


class DatasetFolder:
    """Finds the files of a dataset in folders or archives. Archives are unpacked only when needed."""

    def __init__(self, name: str, facts: DatasetFacts, root: Path | str | None = None) -> None:
        self.name, self.facts = name, facts
        self.source = f"Official page: {facts.page}"
        """A sentence that says where to get the dataset."""
        self.root = self._default() if root is None else self._existing(expanded(root))
        self._folders = [] if self.root.is_file() else [self.root, *(self.root / known for known in facts.folders)]
        archives = [folder / name for folder in self._folders for name in self.facts.archives]
        self._packed = [archive for archive in archives if archive.is_file()] if self._folders else [self.root]

    def find(self, *names: str) -> Path | None:
        """The first of these files or folders (paths below the dataset's folder) that exists."""
        below = (top / name for top in map(unpacked, self._packed) for name in ("", *self.facts.folders))
        paths = (folder / name for folder in chain(self._folders, below) for name in names)
        return next((path for path in paths if path.exists()), None)

    def need(self, *names: str) -> Path:
        """Like `find`, but a missing file is an error that names the official page."""
        if (match := self.find(*names)) is None:
            raise BadInput(
                f"{self.root} has no {' or '.join(names)}, which '{self.name}' needs.{self._hint(names)} {self.source}"
            )
        return match

    def archive(self, name: str) -> Path | None:
        """The unpacked content of the archive `name`; None if there is none."""
        archives = (folder / name for folder in self._folders or [self.root.parent])
        return next((unpacked(archive) for archive in archives if archive.is_file()), None)

    def _hint(self, names: tuple[str, ...]) -> str:
        """Where these files are, or which other dataset is here: a sentence with a space before it, or nothing."""
        wanted = {Path(name).name for name in names}
        for above in list(self.root.resolve().parents)[:HEIGHT]:
            if any((above / name).exists() for name in wanted):
                return f" It is in a folder above: give {above} as the root."
        lists = {name: frozenset(facts.lines) for name in every() if name != self.name and (facts := describe(name))}
        others: dict[str, str] = {}
        for folder, entries in _below(self.root):
            for name in sorted(wanted.intersection(entries)):
                if folder.name in self.facts.folders:
                    return f" It is in {folder}: give that folder as the root."
                return f" Found {folder / name} instead: move it back."
            others |= {other: min(here) for other, files in lists.items() if (here := files.intersection(entries))}
        matches = " and ".join(f"'{other}' (it has {name})" for other, name in others.items())
        return f" This is the dataset {matches}: give the root of the other one." if others else ""

    def _default(self) -> Path:
        """The root below LEVELFIELD_DATA."""
        name, facts, shelf = self.name, self.facts, os.environ.get(VARIABLE, "")
        if not shelf:
            raise MissingData(
                f"No location is given for the dataset '{name}'. Write `data: {{name: {name}, root: DIR}}` or --root "
                f"DIR, or set {VARIABLE} to the folder that contains {facts.folders[0]}. {self.source}"
            )
        names = (*facts.folders, *facts.archives)
        match = next((path for path in (expanded(shelf) / entry for entry in names) if path.exists()), None)
        if match is None:
            raise MissingData(
                f"The dataset '{name}' was not found in {VARIABLE}={shelf}; searched for {', '.join(names)}. "
                f"{self.source}"
            )
        return expanded(shelf) if match.is_file() else match  # with several archives in one folder, use that folder

    def _existing(self, root: Path) -> Path:
        if root.is_dir() or (root.is_file() and is_archive(root)):
            return root
        if root.is_file():
            kinds = "a folder or an archive (.zip, .tar, .tgz)"
            raise BadInput(f"{root} is a file; the dataset '{self.name}' needs {kinds}. {self.source}")
        raise MissingData(
            f"The root of '{self.name}' does not exist: {root}.{similar(root)} It should contain "
            f"{self.facts.folders[0]}. {self.source}"
        )


class Row(NamedTuple):
    """One image of the official lists. `part` is a key of `DatasetFacts.parts`: train, test, query or gallery."""

    file: Path
    class_id: ClassId
    part: str


@dataclass(frozen=True)
class Listing:
    """Result of reading the official files.

    class_names: in the order of the official ids, for all classes that may occur.
    folders: folders of the images; files there that are not in any row are reported.
    lines: rows of each annotation file, to be compared with the official counts.
    groups: of each class, if classes belong together.
    """

    rows: list[Row]
    class_names: Mapping[ClassId, str]
    folders: tuple[Path, ...]
    lines: Mapping[Path, int] = field(default_factory=dict)
    groups: Mapping[ClassId, str] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """A dataset as found on disk. `problems`: differences from the official release; `remarks`: other oddities."""

    catalog: Catalog
    problems: tuple[str, ...]
    remarks: tuple[str, ...]
    annotations: tuple[Path, ...]
    dataset: DatasetFolder


Reader = Callable[[DatasetFolder], Listing]
_READERS: dict[str, Reader] = {}


def official(name: str, facts: DatasetFacts) -> Callable[[Reader], Reader]:
    """Decorator: register a reader of the official files as the dataset `name`."""

    def enter(reader: Reader) -> Reader:
        _READERS[name] = reader

        def source(root: Path | str | None = None, *, allow_incomplete: bool = False) -> Catalog:
            reading = read(name, root)
            if reading.problems and not allow_incomplete:
                details = "".join(f"  {problem}\n" for problem in reading.problems)
                raise BadInput(
                    f"The dataset '{name}' in {reading.dataset.root} is not the official one:\n{details}"
                    "To continue with the images that are there, set allow_incomplete: true (on the command line: "
                    f"data.allow_incomplete=true). {reading.dataset.source}"
                )
            problems = [f"Not the official dataset: {problem}." for problem in reading.problems]
            return reading.catalog.with_notes(*problems, *reading.remarks)

        source.__doc__, source.__module__ = reader.__doc__, reader.__module__
        register(name, facts)(source)
        return reader

    return enter


def names() -> list[str]:
    """The benchmarks with known official counts."""
    return [name for name in every() if name in _READERS]


def read(name: str, root: Path | str | None = None, *, facts: DatasetFacts | None = None) -> Reading:
    """Read `name` below `root` and compare it with `facts` (by default the official counts)."""
    if name not in names():
        raise unknown("benchmark", name, _READERS, see="levelfield datasets")
    dataset = DatasetFolder(name, facts or describe(name), root)
    listing = _READERS[name](dataset)
    there = {file for folder in listing.folders for file in files_below(folder) if is_image(file)}
    rows = [row for row in listing.rows if str(row.file) in there]
    listed = {str(row.file) for row in listing.rows}
    if not rows:
        where = " or ".join(map(str, listing.folders)) or str(dataset.root)
        raise BadInput(f"None of the {len(listing.rows):,} images of '{name}' is in {where}. {dataset.source}")
    catalog = _catalog(dataset, listing, rows)
    remarks = [*listing.notes, *lone_note(catalog)]
    if unlisted := sorted(there - listed):
        count = plural(len(unlisted), "image file is", "image files are")
        remarks.append(f"{count} not in any list: {first_few(unlisted)}.")
    problems = _differences(dataset.facts, listing, rows)
    if missing := [str(row.file) for row in listing.rows if str(row.file) not in there]:
        count = plural(len(missing), "listed image has", "listed images have")
        problems.append(f"{count} no file: {first_few(missing)}")
    return Reading(catalog, tuple(problems), tuple(remarks), tuple(listing.lines), dataset)


def _catalog(dataset: DatasetFolder, listing: Listing, rows: list[Row]) -> Catalog:
    used = {row.class_id for row in rows}
    ids = [class_id for class_id in listing.class_names if class_id in used]
    number = {class_id: position for position, class_id in enumerate(ids)}
    if nameless := used.difference(number):
        raise BadInput(
            f"The class {min(nameless, key=str)} in the labels of '{dataset.name}' has no name: the files in "
            f"{dataset.root} do not match each other. {dataset.source}"
        )
    groups = None
    if listing.groups is not None:
        of_group: dict[str, int] = {}
        groups = np.array([of_group.setdefault(listing.groups[class_id], len(of_group)) for class_id in ids])
    return Catalog(
        name=dataset.name,
        paths=tuple(row.file for row in rows),
        labels=np.array([number[row.class_id] for row in rows]),
        class_names=tuple(listing.class_names[class_id] for class_id in ids),
        class_ids=tuple(ids),
        groups=groups,
        roles=tuple(row.part for row in rows) if set(_ROLES) <= set(dataset.facts.parts) else None,
        split=tuple("test" if row.part in _ROLES else row.part for row in rows),
    )


def _differences(facts: DatasetFacts, listing: Listing, rows: list[Row]) -> list[str]:
    """Differences between expected and actual counts: rows of the files, then images and classes of the parts."""
    images = Counter(row.part for row in rows)
    classes = Counter(part for part, _ in {(row.part, row.class_id) for row in rows})
    counts = [(file.name, facts.lines.get(file.name, lines), lines, "rows") for file, lines in listing.lines.items()]
    for part, (expected_images, expected_classes) in facts.parts.items():
        counts.append((part, expected_images, images[part], "images"))
        counts.append((part, expected_classes, classes[part], "classes"))
    return [
        f"{where}: {expected:,} {what} expected, {actual:,} found"
        for where, expected, actual, what in counts
        if expected != actual
    ]


def _below(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Folders below the root with the names of what they hold."""
    for parent, folders, files in os.walk(root):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))[:WIDTH]
        entries = [*files, *folders]
        if len(Path(parent).relative_to(root).parts) >= DEPTH:
            folders.clear()
        yield Path(parent), entries
