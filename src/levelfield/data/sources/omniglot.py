"""Omniglot: characters of fifty alphabets, drawn twenty times each. Background for training, evaluation for test."""

from __future__ import annotations

from pathlib import Path

from levelfield.data._registry import DatasetFacts
from levelfield.data.images import hidden, images_below
from levelfield.data.official import ClassId, DatasetFolder, Listing, Row, official
from levelfield.errors import BadInput

_PARTS = {"images_background": "train", "images_evaluation": "test"}


@official(
    "omniglot",
    DatasetFacts(
        what="hand-written characters of fifty alphabets (Omniglot)",
        needs="root",
        images=32_460,
        classes=1_623,
        licence="MIT",
        page="https://github.com/brendenlake/omniglot",
        parts={"train": (19_280, 964), "test": (13_180, 659)},
        folders=("omniglot", "omniglot-py", "python", "omniglot/python"),
        archives=("omniglot.zip", "images_background.zip", "images_evaluation.zip"),
    ),
)
def omniglot(dataset: DatasetFolder) -> Listing:
    """A class is alphabet + character; its official id is the leading number of its files. Alphabets are groups."""
    rows: list[Row] = []
    names: dict[ClassId, str] = {}
    groups: dict[ClassId, str] = {}
    folders = tuple(dataset.need(part) for part in _PARTS)
    characters = [
        (top, alphabet, character) for top in folders for alphabet in _folders(top) for character in _folders(alphabet)
    ]
    for top, alphabet, character in characters:
        if files := images_below(character):
            number, name = _number(character, files), f"{alphabet.name}/{character.name}"
            if number in names:
                same = f"{names[number]} and {name} in {dataset.root} have the same number {number}"
                raise BadInput(f"{same}: a folder is duplicated.")
            names[number], groups[number] = name, alphabet.name
            rows += [Row(file, number, _PARTS[top.name]) for file in files]
    return Listing(rows, dict(sorted(names.items(), key=lambda entry: int(entry[0]))), folders, groups=groups)


def _folders(top: Path) -> list[Path]:
    return sorted(entry for entry in top.iterdir() if entry.is_dir() and not hidden(entry.name))


def _number(character: Path, files: list[Path]) -> int:
    """The number that all drawings of a character share: 0394_01.png."""
    numbers = {file.name.partition("_")[0] for file in files}
    if len(numbers) != 1 or not min(numbers).isdigit():
        several = ", ".join(sorted(numbers)[:5])
        raise BadInput(f"The drawings in {character} must share one number, found {several}: different characters.")
    return int(min(numbers))
