"""A folder of images with one sub-folder per class."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from levelfield.data._registry import DatasetFacts, register
from levelfield.data.archives import is_archive, stem, unpacked
from levelfield.data.catalog import Catalog
from levelfield.data.checks.readable import lone_note
from levelfield.data.images import files_below, hidden, is_image, leads_up, similar
from levelfield.errors import BadInput
from levelfield.files.writing import expanded
from levelfield.wording import first_few, natural, plural

_LAYOUT = "One sub-folder per class is needed: FOLDER/cat/1.jpg, FOLDER/cat/2.jpg, FOLDER/dog/1.jpg, ..."
_PARTS = frozenset({"train", "training", "val", "valid", "validation", "test", "testing", "query", "gallery"})


@register("folder", DatasetFacts(what="your own images: one sub-folder per class (also as .zip or .tar)", needs="path"))
def folder(path: Path | str) -> Catalog:
    """Class = name of the top sub-folder, including images in deeper folders, in natural order; links are followed."""
    root = expanded(path)
    if root.is_file() and is_archive(root):
        top = unpacked(root)
        inner = list(top.iterdir())
        root = inner[0] if len(inner) == 1 and inner[0].is_dir() else top
    if not root.is_dir():
        if root.is_file():
            raise BadInput(f"{root} is a file, not a folder. {_LAYOUT} A list of images must end in .csv.")
        raise BadInput(f"The folder {root} does not exist.{similar(root)}")
    by_class: dict[str, list[Path]] = {}
    empty, upwards, strange = [], [], 0
    try:
        sub_folders = [entry.name for entry in root.iterdir() if entry.is_dir() and not hidden(entry.name)]
    except OSError as error:
        raise BadInput(f"Cannot read the folder {root}: {error.strerror or error}.") from error
    for name in sorted(sub_folders, key=natural):
        if leads_up(root / name):
            upwards.append(name)
            continue
        files = [Path(file) for file in files_below(root / name)]
        images = sorted((file for file in files if is_image(file)), key=lambda file: natural(file.as_posix()))
        strange += sum(not is_image(file) and not file.name.startswith(".") for file in files)
        if images:
            by_class[name] = images
        else:
            empty.append(name)
    loose = sum(1 for entry in root.iterdir() if entry.is_file() and is_image(entry))
    _refuse_unusable(root, by_class, empty, loose)

    sizes = [len(images) for images in by_class.values()]
    catalog = Catalog(
        name=stem(Path(path)) if is_archive(Path(path)) else root.resolve().name,
        paths=tuple(image for images in by_class.values() for image in images),
        labels=np.repeat(np.arange(len(sizes)), sizes),
        class_names=tuple(by_class),
    )
    ignored = (
        (loose, "image", f"directly in {root}, without a class"),
        (len(upwards), "link", f"to a parent folder: {first_few(upwards)}"),
        (len(empty), "sub-folder", f"without images: {first_few(empty)}"),
        (strange, "file", "of other kinds"),
    )
    notes = [f"Ignored {plural(count, what, f'{what}s')} {which}." for count, what, which in ignored if count]
    return catalog.with_notes(*notes, *lone_note(catalog))


def _refuse_unusable(root: Path, by_class: dict[str, list[Path]], empty: list[str], loose: int) -> None:
    if not by_class:
        others = sorted(entry.name for entry in root.iterdir() if not hidden(entry.name))
        content = f"contains no image and no sub-folder, only {first_few(others)}" if others else "is empty"
        if empty:
            content = f"has {len(empty):,} sub-folders ({first_few(empty)}) but none contains an image"
        if loose:
            content = f"has {loose:,} images but no sub-folders with images"
        raise BadInput(f"{root} {content}. {_LAYOUT}")
    if len(by_class) == 1:
        [(name, images)] = by_class.items()
        inner = Path(os.path.commonpath([image.parent for image in images]))
        deeper = {image.relative_to(inner).parts[0] for image in images if image.parent != inner}
        hint = f" Did you mean {inner}, which has {len(deeper)} sub-folders with images?" if deeper else ""
        raise BadInput(f"{root} has only one class, '{name}'; at least two are needed.{hint}")
    is_split = all(name.lower() in _PARTS for name in by_class)
    if is_split and all(any(file.parent != root / name for file in images) for name, images in by_class.items()):
        raise BadInput(
            f"{root} is divided into {', '.join(by_class)}, which are parts of a split, not classes. levelfield "
            f"splits by class itself: pass one part ({root / next(iter(by_class))}), or merge the parts."
        )
