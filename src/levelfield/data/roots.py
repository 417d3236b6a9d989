"""Locate a benchmark: its folder, the parent folder, the archives in it, or one archive."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from levelfield.data._registry import DatasetFacts, describe
from levelfield.data._registry import names as every
from levelfield.data.archives import is_archive, unpacked
from levelfield.data.images import similar
from levelfield.errors import BadInput, MissingData
from levelfield.files.writing import expanded

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


def _below(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Folders below the root with the names of what they hold."""
    for parent, folders, files in os.walk(root):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))[:WIDTH]
        entries = [*files, *folders]
        if len(Path(parent).relative_to(root).parts) >= DEPTH:
            folders.clear()
        yield Path(parent), entries
