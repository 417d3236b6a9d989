"""The folder of an index: rows, items and index.json, which names the model and has a checksum of every file.

Data files are named after their content. index.json is replaced last, in one step, so the folder is always one whole
index: the earlier or the new one.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from levelfield.errors import BadInput, Damaged
from levelfield.files.arrays import read_array
from levelfield.files.reading import MEGABYTE, checksum, digest, read_json, read_text
from levelfield.files.writing import LONGEST_NAME, locked, temporary_folder, write_json, write_text, write_whole
from levelfield.shipping.description import MOST_NUMBERS
from levelfield.shipping.index.exact import BINARY, Stored

INDEX = "index.json"
FORMAT = 1
_ROWS, _ITEMS, _LOCK = "rows", "items", ".lock"
_COLUMNS = ["path", "class", "folder", "digest"]
_DATA = re.compile(r"\A(rows|items)-[0-9a-f]{32}\.(npy|csv)\Z")
_MOST_ITEMS = 2_000 * MEGABYTE

_log = logging.getLogger(__name__)


def _path(text: str) -> str:
    if not text or "\0" in text or any(len(os.fsencode(part)) > LONGEST_NAME for part in Path(text).parts):
        raise ValueError("is not a path")
    return text


class _Strict(BaseModel, extra="forbid", strict=True, allow_inf_nan=False):
    """An object of the index file: these keys alone, and no conversion of their values."""


class _Model(_Strict):
    place: Annotated[str, AfterValidator(_path)]
    checksum: str
    method: str = ""
    data: str = ""


class _Threshold(_Strict):
    value: float
    low: float | None
    high: float | None
    chosen_on: str


class _Unknowns(_Strict):
    value: float
    low: float | None
    high: float | None
    matched: int
    images: int
    classes: int
    gallery: int


class _Approximate(_Strict, extra="allow"):
    __pydantic_extra__: dict[str, float]  # recall@K

    library: Literal["usearch", "faiss"]
    queries: int


class _Facts(_Strict):
    """What index.json contains, without its checksum: data from anywhere."""

    format: int
    images: int = Field(ge=1)
    dim: int = Field(ge=1, le=MOST_NUMBERS)
    codes: Literal["float32", "binary"]
    model: _Model
    folders: list[Annotated[str, AfterValidator(_path)]]
    threshold: _Threshold | None
    unknowns: _Unknowns | None
    approximate: _Approximate | None
    files: dict[str, Annotated[str, Field(pattern=_DATA)]]


@dataclass(frozen=True)
class Item:
    """An image of an index: its path below one of the index's folders, its class (the sub-folder, or empty), the number
    of the folder, and a hash of the file's content."""

    path: str
    label: str
    folder: int
    digest: str

    @property
    def key(self) -> tuple[int, str]:
        return self.folder, self.path


@dataclass(frozen=True)
class Content:
    """Everything in the folder of an index. facts: those of index.json without its checksums."""

    facts: Mapping[str, Any]
    items: list[Item]
    stored: Stored


def is_index(folder: Path) -> bool:
    return (folder / INDEX).is_file()


def relative(path: Path, folder: Path) -> str:
    """A path as index.json of `folder` writes it: relative to the folder, so that both can be moved together."""
    return os.path.relpath(path.resolve(), folder.resolve())


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Hold the lock of an index from reading to writing, so that two processes change it one after the other.

    A new folder is removed again if no index is written into it.
    """
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    with ExitStack() as stack:
        if not stack.enter_context(locked(folder / _LOCK, wait=False)):
            _log.warning("Waiting for another process that changes the index %s.", folder)
            stack.enter_context(locked(folder / _LOCK))
        try:
            yield
        finally:
            if not is_index(folder):
                with suppress(OSError):  # not empty
                    (folder / _LOCK).unlink(missing_ok=True)
                    for path in new_folders:
                        path.rmdir()


def write_folder(folder: Path, content: Content) -> None:
    """Write or replace an index, inside `changing(folder)`."""
    with temporary_folder(folder) as temporary:
        write_whole(temporary / f"{_ROWS}.npy", lambda file: np.save(file, content.stored.values))
        write_text(temporary / f"{_ITEMS}.csv", _as_csv(content.items))
        files = {}
        for path in sorted(temporary.iterdir()):
            files[path.stem] = f"{path.stem}-{checksum(path)}{path.suffix}"
            path.rename(temporary / files[path.stem])
        facts = {"format": FORMAT, **content.facts, "files": files}
        write_json(temporary / INDEX, {**facts, "checksum": _checksum(facts)})
        for path in sorted(temporary.iterdir(), key=lambda path: path.name == INDEX):
            path.replace(folder / path.name)
    for path in folder.iterdir():  # of an earlier index, whose index.json may have been damaged
        if _DATA.fullmatch(path.name) and path.name not in files.values():
            path.unlink(missing_ok=True)


def read_folder(folder: Path) -> Content:
    """The index in a folder, after checking that no file was changed."""
    facts = read_facts(folder)
    for name in facts["files"].values():
        path = folder / name
        if not path.is_file():
            raise Damaged(f"{path} is missing: the index is incomplete. Make it again with `levelfield index`.")
        if checksum(path) not in name:
            raise _changed(path)
    items = _read_items(folder / facts["files"][_ITEMS], len(facts["folders"]))
    values = read_array(folder / facts["files"][_ROWS])
    dim, codes = facts["dim"], facts["codes"]
    shape, kind = (len(items), -(-dim // 8) if codes == BINARY else dim), np.uint8 if codes == BINARY else np.float32
    if values.shape != shape or values.dtype != kind or len(items) != facts["images"]:
        raise Damaged(f"{folder / INDEX} does not describe the rows beside it: {values.shape} {values.dtype}.")
    return Content(facts, items, Stored(values, dim, codes))


def read_facts(folder: Path) -> dict[str, Any]:
    """The content of index.json."""
    if not is_index(folder):
        raise BadInput(f"{folder} is not an index: it has no {INDEX}. Make one with `levelfield index RUN PHOTOS`.")
    facts = read_json(folder / INDEX, most=MEGABYTE)
    if not isinstance(facts, dict) or "format" not in facts:
        raise Damaged(f"{folder / INDEX} does not describe an index.")
    if facts["format"] != FORMAT:
        raise BadInput(f"{folder / INDEX} has format {facts['format']}; this levelfield reads {FORMAT}.")
    if facts.pop("checksum", None) != _checksum(facts):
        raise _changed(folder / INDEX)
    try:
        _Facts.model_validate(facts)
    except ValidationError as error:
        first = error.errors()[0]
        raise Damaged(
            f"{folder / INDEX} does not describe an index: {'.'.join(map(str, first['loc']))}: {first['msg']}."
        ) from error
    if set(facts["files"]) != {_ROWS, _ITEMS}:
        raise Damaged(f"{folder / INDEX} does not describe an index: it names other files than those of an index.")
    return facts


def _changed(path: Path) -> Damaged:
    return Damaged(f"{path} was changed: its checksum does not match. Make the index again with `levelfield index`.")


def _checksum(facts: Mapping[str, Any]) -> str:
    return digest(json.dumps(facts, sort_keys=True), size=16)


def _as_csv(items: list[Item]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)  # without quotes, \r would end a line
    writer.writerow(_COLUMNS)
    writer.writerows((item.path, item.label, item.folder, item.digest) for item in items)
    return text.getvalue()


def _read_items(path: Path, folders: int) -> list[Item]:
    text = read_text(path, most=_MOST_ITEMS)
    try:
        header, *lines = csv.reader(io.StringIO(text, newline=""))
        items = [Item(name, label, int(folder), digest) for name, label, folder, digest in lines]
    except (csv.Error, ValueError) as error:
        raise Damaged(f"{path} is not a list of images: {error}.") from error
    if header != _COLUMNS or "\0" in text or not all(0 <= item.folder < folders for item in items):
        raise Damaged(f"{path} is not a list of images.")
    return items
