"""A few photographs of a copy of CUB-200-2011, in the official layout: lists of its own, links to the photographs."""

from __future__ import annotations

import os
from pathlib import Path

from levelfield.data.official import DatasetFolder
from levelfield.data.sources.text_lists import CUB

TRAINING = (10, 10, *(2,) * 10)  # photographs of each class
TEST = (3,) * 6
_FIRST_TEST_CLASS = 101


def draw_sample(root: Path, folder: Path) -> Path:
    """The first photographs of the first classes of either half, below `folder`; the new root."""
    dataset, to = DatasetFolder("cub", CUB, root), folder / "CUB_200_2011"
    if to.exists():
        return to
    lists = {name: _rows(dataset.need(name)) for name in ("images.txt", "image_class_labels.txt", "classes.txt")}
    images, kept, labels = dataset.need("images"), _kept(lists["image_class_labels.txt"]), set[str]()
    to.mkdir(parents=True)
    for number, path in lists["images.txt"]:
        if number in kept:
            labels.add(kept[number])
            (to / "images" / path).parent.mkdir(parents=True, exist_ok=True)
            os.symlink((images / path).resolve(), to / "images" / path)
    keep = {"images.txt": kept, "image_class_labels.txt": kept, "classes.txt": labels}
    for name, rows in lists.items():
        lines = [f"{number} {rest}" for number, rest in rows if number in keep[name]]
        (to / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return to


def _kept(rows: list[tuple[str, str]]) -> dict[str, str]:
    """The class of every photograph to keep, by the photograph's number."""
    by_class: dict[int, list[str]] = {}
    for number, label in rows:
        by_class.setdefault(int(label), []).append(number)
    found: dict[str, str] = {}
    for sizes, tested in ((TRAINING, False), (TEST, True)):
        of_half = [label for label in sorted(by_class) if (label >= _FIRST_TEST_CLASS) == tested]
        for label, size in zip(of_half, sizes, strict=False):
            found |= dict.fromkeys(by_class[label][:size], str(label))
    return found


def _rows(file: Path) -> list[tuple[str, str]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [(number, rest.strip()) for number, _, rest in (line.partition(" ") for line in lines if line.strip())]
