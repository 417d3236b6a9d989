"""Check every image once before training starts, name those that cannot be read, and note what is odd.

The cache has one file for each folder of images: a checksum, then rows of 32 bytes, sorted: the key (a hash of path,
size and time of an image file) and its digest. A changed file has another key. Images that cannot be read are not
recorded: they are checked each time, since a decoder may have been installed, and the reason must be reported.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from levelfield.data.catalog import Catalog, file_digest
from levelfield.data.images import verify_image
from levelfield.errors import BadInput, LevelfieldError, MissingExtra
from levelfield.files.writing import default_cache_folder, locked, write_whole
from levelfield.progress import SILENT, Progress
from levelfield.wording import MAX_LISTED, first_few, plural

T = TypeVar("T")
PAUSE = 60.0  # seconds of checking that a killed process can lose
SETTLED = 2_000_000_000  # ns; a file changed more recently could change again with the same modification time
FORMAT = b"levelfield seen1"
_NOT_UTF8 = re.compile("[\ud800-\udfff]").search  # how Python reads bytes of a name that are not UTF-8

_log = logging.getLogger(__name__)
_READERS = 2


def check_names(paths: Sequence[Path], class_names: Sequence[str] = ()) -> None:
    """Refuse names that are not UTF-8: results list every image by its name."""
    odd = [*filter(_NOT_UTF8, map(str, paths))] or [*filter(_NOT_UTF8, class_names)]
    if not odd:
        return
    shown = first_few([ascii(os.fsencode(name))[2:-1] for name in odd])
    raise BadInput(
        f"{plural(len(odd), 'file name is', 'file names are')} not UTF-8 text, and results list images by name: "
        f"{shown}. Rename the files, for example with convmv -f latin1 -t utf-8 --notest -r FOLDER."
    )


def unreadable(paths: Sequence[Path], *, progress: Progress = SILENT) -> dict[int, LevelfieldError]:
    """The indices of images that cannot be decoded, each with the reason."""
    outcomes = enumerate(_outcomes(paths, verify_image, progress))
    return {position: outcome for position, outcome in outcomes if isinstance(outcome, LevelfieldError)}


def lone_note(catalog: Catalog) -> tuple[str, ...]:
    """A note about queries without a positive, if any: classes with one image, or with none in the gallery."""
    if catalog.roles is not None:
        roles = np.array(catalog.roles)
        alone = ~np.isin(catalog.labels, catalog.labels[roles == "gallery"]) & (roles == "query")
        subject = plural(int(alone.sum()), "query has", "queries have")
        return (f"{subject} no image of its class in the gallery: a miss.",) if alone.any() else ()
    lone = [catalog.class_names[c] for c in np.flatnonzero(catalog.class_sizes == 1)]
    if not lone:
        return ()
    return (
        f"{plural(len(lone), 'class has', 'classes have')} only one image and cannot be a query: {first_few(lone)}.",
    )


def check_images(
    catalog: Catalog, *, skip_unreadable: bool = False, progress: Progress = SILENT, cache: Path | None = None
) -> Catalog:
    """Decode every image that is new or has changed; the returned catalog has digests.

    Unreadable images are named and counted in an error, or dropped with a note. The stage of `progress` counts the
    images that are opened.
    """
    memory = _Memory(catalog, cache)
    digests = memory.digests()
    unknown = [position for position, path in enumerate(catalog.paths) if path not in digests]
    failures: dict[int, LevelfieldError] = {}
    try:
        outcomes = _outcomes([catalog.paths[i] for i in unknown], _verified_digest, progress)
        for position, outcome in zip(unknown, outcomes, strict=True):
            if isinstance(outcome, LevelfieldError):
                failures[position] = outcome
            else:
                digests[catalog.paths[position]] = outcome
                memory.add(position, outcome)
    finally:
        memory.save()
    if failures and (not skip_unreadable or len(failures) == len(catalog)):
        reasons = "\n".join(f"  {error}" for error in list(failures.values())[:MAX_LISTED])
        more = f"\n  ... and {len(failures) - MAX_LISTED} more" if len(failures) > MAX_LISTED else ""
        only_extra = all(isinstance(error, MissingExtra) for error in failures.values())
        raise (MissingExtra if only_extra else BadInput)(
            f"{len(failures)} of {len(catalog)} images of '{catalog.name}' cannot be read:\n{reasons}{more}\n"
            "Repair or remove them, or continue without them: --skip-unreadable"
        )
    catalog = _without(catalog, failures) if failures else catalog
    return replace(catalog, known_digests=digests)


def with_known_digests(catalog: Catalog, *, cache: Path | None = None) -> Catalog:
    """The same catalog with recorded digests; `digests` reads the files without a record, but does not decode them."""
    return replace(catalog, known_digests=_Memory(catalog, cache).digests())


def _without(catalog: Catalog, failures: dict[int, LevelfieldError]) -> Catalog:
    """The catalog without the images that cannot be read, with notes about them."""
    part = catalog.subset(np.setdiff1d(np.arange(len(catalog)), list(failures)))
    names = [str(catalog.paths[i]) for i in failures]
    notes = [f"Skipped {plural(len(names), 'image', 'images')} that cannot be read: {first_few(names)}."]
    if gone := [name for name in catalog.class_names if name not in set(part.class_names)]:
        notes.append(f"Left out {plural(len(gone), 'class', 'classes')} without a readable image: {first_few(gone)}.")
    return part.with_notes(*notes, *(note for note in lone_note(part) if note not in catalog.notes))


class _Memory:
    """Records of one catalog's files, saved regularly."""

    def __init__(self, catalog: Catalog, cache: Path | None) -> None:
        self._catalog = catalog
        self._paths = [os.path.abspath(path) for path in catalog.paths]
        ends = min(self._paths, default=""), max(self._paths, default="")  # their common prefix is that of all
        home = os.path.commonpath([os.path.dirname(end) for end in ends])
        self._shelf = (cache or default_cache_folder()) / "seen"
        self._file = self._shelf / _hash(home).hex()
        self._settled = time.time_ns() - SETTLED
        self._keys = [_key(path) for path in self._paths]
        self._new: dict[bytes, bytes] = {}
        self._saved = time.monotonic()

    def digests(self) -> dict[Path, str]:
        """The digests of the images that need no check."""
        stored = _read(self._file)
        keys = zip(self._catalog.paths, self._keys, strict=True)
        return {path: stored[key].hex() for path, key in keys if key is not None and key in stored}

    def add(self, position: int, digest: str) -> None:
        """Record a checked image, unless its file has changed meanwhile or could change unnoticed."""
        key = self._keys[position]
        if key is not None and key == _key(self._paths[position], before=self._settled):
            self._new[key] = bytes.fromhex(digest)
        if time.monotonic() - self._saved > PAUSE:
            self.save()

    def save(self) -> None:
        """Merge the new rows with those that other processes have saved."""
        if not self._new:
            return
        try:
            with locked(self._shelf / ".lock"):
                rows = b"".join(key + digest for key, digest in sorted((_read(self._file) | self._new).items()))
                write_whole(self._file, lambda file: file.write(_checked(rows)))
        except BadInput as error:  # a read-only cache only makes the next start slower
            _log.warning("Cannot record which images were checked; they will be checked again next time. %s", error)
        self._new, self._saved = {}, time.monotonic()


def _verified_digest(path: Path) -> str:
    verify_image(path)
    return file_digest(path)


def _outcomes(paths: Sequence[Path], check: Callable[[Path], T], progress: Progress) -> Iterator[T | LevelfieldError]:
    """The result of `check` for each image, or the reason why it cannot be read; a stage counts those taken."""
    if not paths:
        return

    def outcome(path: Path) -> T | LevelfieldError:
        try:
            return check(path)
        except LevelfieldError as error:
            return error

    stage = progress.stage("checking images", len(paths))
    with ThreadPoolExecutor(_READERS) as readers:
        for result in readers.map(outcome, paths):
            yield result
            stage.advance()


def _key(path: str, *, before: int | None = None) -> bytes | None:
    """16 bytes that identify this state of the file; None if it does not exist or changed too recently."""
    try:
        state = os.stat(path)
    except OSError:  # the error is reported when the file is opened
        return None
    if before is not None and state.st_mtime_ns >= before:
        return None
    return _hash(f"{path}\0{state.st_size}\0{state.st_mtime_ns}")


def _hash(text: str) -> bytes:
    return hashlib.blake2b(os.fsencode(text), digest_size=16).digest()


def _checked(content: bytes) -> bytes:
    """The content with a checksum in front."""
    return FORMAT + hashlib.blake2b(content, digest_size=16).digest() + content


def _read(file: Path) -> dict[bytes, bytes]:
    """The digest of each key. A damaged file counts as empty and is replaced at the next save."""
    content = file.read_bytes() if file.is_file() else b""
    rows = content[32:] if content == _checked(content[32:]) else b""
    return {rows[k : k + 16]: rows[k + 16 : k + 32] for k in range(0, len(rows), 32)}
