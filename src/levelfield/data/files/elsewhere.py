"""What to tell the user about a root that lacks a file of its dataset: where the file is, or what else is there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

DEPTH, WIDTH = 3, 50  # folders below the root that are searched: how deep, and how many of a folder
HEIGHT = 2  # folders above it


def hint(root: Path, wanted: tuple[str, ...], folders: tuple[str, ...], others: Mapping[str, frozenset[str]]) -> str:
    """A sentence with a space before it, or nothing.

    folders: the usual names of the dataset's folder. others: the files that tell other datasets, by their names.
    """
    names = {Path(name).name for name in wanted}
    for above in list(root.resolve().parents)[:HEIGHT]:
        if any((above / name).exists() for name in names):
            return f" It is in a folder above: give {above} as the root."
    held: dict[str, str] = {}
    for place, entries in _below(root):
        for name in sorted(names.intersection(entries)):
            if place.name in folders:
                return f" It is in {place}: give that folder as the root."
            return f" Found {place / name} instead: move it back."
        for other, files in others.items():
            if other not in held and (there := files.intersection(entries)):
                held[other] = min(there)
    matches = " and ".join(f"'{other}' (it has {name})" for other, name in held.items())
    return f" This is the dataset {matches}: give the root of the other one." if held else ""


def _below(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Folders below the root with the names of what they hold."""
    for place, folders, files in os.walk(root):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))[:WIDTH]
        entries = [*files, *folders]
        if len(Path(place).relative_to(root).parts) >= DEPTH:
            folders.clear()
        yield Path(place), entries
