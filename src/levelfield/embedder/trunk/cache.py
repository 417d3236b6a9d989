"""Features on disk: computed once per image content, safe with several processes and after a crash.

A key (everything that determines the numbers) has a folder; its rows are in 16 buckets by digest. A bucket is a lock
and chunk files of at most CHUNK rows, each written atomically and never changed. So a reader needs no lock, a killed
writer loses at most one chunk, and two processes take different buckets and compute nothing twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from levelfield.embedder.trunk.chunks import Chunk, Rows, open_chunk, read_arrays, write_arrays, write_chunk
from levelfield.errors import LevelfieldError
from levelfield.files.writing import default_cache_folder, locked, write_json
from levelfield.progress import SILENT_STAGE, Stage

CHUNK = 512  # rows per file, and at most lost by a killed process
IN_MEMORY = 2 * 1024**3  # bytes: smaller data are read into memory and their checksums verified
_BUCKETS = 16


@dataclass(frozen=True)
class Entry:
    """The stored data of one key. `last_use` is in seconds since 1970."""

    key: str
    description: str
    bytes: int
    last_use: float


class FeatureCache:
    """A content-addressed store of rows, and of arrays derived from them.

    computed_by: what besides the key affects bits; by default the versions of torch, timm and Pillow, and the CPU.

    >>> import tempfile
    >>> cache = FeatureCache(tempfile.mkdtemp())
    >>> rows = cache.rows("halves", ["a1", "b2", "c3"], lambda positions: (np.float32(positions) / 2,))
    >>> rows[[2, 0]]
    (tensor([1., 0.]),)
    """

    def __init__(self, folder: Path | str | None = None, *, computed_by: str | None = None) -> None:
        self.folder = default_cache_folder() if folder is None else Path(folder)
        if computed_by is not None:
            self._computed_by = computed_by

    @cached_property
    def _computed_by(self) -> str:
        from levelfield.embedder.trunk.blocks import COMPUTED_BY  # imports torch

        return COMPUTED_BY

    def rows(
        self,
        key: str,
        digests: Sequence[str],
        compute: Callable[[list[int]], tuple[np.ndarray, ...]],
        *,
        stage: Stage = SILENT_STAGE,
        description: str = "",
    ) -> Rows:
        """One row per digest, in that order. `compute(positions)` is called only for missing rows.

        It gets at most CHUNK positions at a time and returns one or more arrays with one row per position.
        The steps of `stage` are distinct digests; `compute` may advance it row by row.
        """
        home = self._home("rows", key, description)
        first: dict[str, int] = {}  # equal contents are computed once
        for position, digest in enumerate(digests):
            first.setdefault(digest, position)
        wanted: dict[str, list[str]] = {}
        for digest in first:
            wanted.setdefault(_bucket(digest), []).append(digest)

        def computed(missing: list[str]) -> tuple[np.ndarray, ...]:
            arrays = compute([first[digest] for digest in missing])
            if not arrays or any(len(array) != len(missing) for array in arrays):
                raise LevelfieldError(f"The computation must return {len(missing)} rows but returned another number.")
            return arrays

        chunks: list[Chunk] = []
        pending = sorted(wanted)
        for wait in (False, True):  # first the free buckets, then those that other processes were computing
            held = []
            for bucket in pending:
                filled = _filled(home, bucket, wanted[bucket], computed, wait, stage)
                if filled is None:
                    held.append(bucket)
                else:
                    chunks += filled
            pending = held
        return Rows(digests, chunks, in_memory=_bytes(home) < IN_MEMORY)

    def absent(self, key: str, digests: Sequence[str]) -> set[str]:
        """The digests whose rows are not stored yet."""
        chunks = [open_chunk(path, check=False) for path in self._place("rows", key).glob("*.safetensors")]
        return set(digests).difference(*(chunk.digests for chunk in chunks if chunk is not None))

    def array(self, key: str, compute: Callable[[], Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Named arrays that are computed once, such as a PCA of stored rows."""
        home = self._home("arrays", key)
        path = home / "arrays.safetensors"
        if (stored := _read(path)) is not None:
            return stored
        with locked(home / "lock"):
            if (stored := _read(path)) is None:
                stored = {name: np.asarray(array) for name, array in compute().items()}
                write_arrays(path, stored)
        return stored

    def entries(self) -> list[Entry]:
        """The stored entries, least recently used first."""
        return sorted((entry for _, entry in self._stored()), key=lambda entry: entry.last_use)

    def clear(self) -> int:
        """Remove everything. Returns the bytes freed.

        Safe while other processes use the cache: they recompute what is missing, and keep what they have opened.
        """
        freed = 0
        for home, entry in self._stored():
            shutil.rmtree(home, ignore_errors=True)
            freed += entry.bytes
        return freed

    def _home(self, kind: str, key: str, description: str = "") -> Path:
        """The folder of a key, marked as used now."""
        home = self._place(kind, key)
        note = home / "key.json"
        if not note.exists():
            write_json(note, {"key": key, "description": description or key, "computed_by": self._computed_by})
        with contextlib.suppress(OSError):  # allow a read-only store
            os.utime(note)
        return home

    def _place(self, kind: str, key: str) -> Path:
        return self.folder / kind / hashlib.blake2b(f"{key} {self._computed_by}".encode(), digest_size=16).hexdigest()

    def _stored(self) -> Iterator[tuple[Path, Entry]]:
        for note in sorted([*self.folder.glob("rows/*/key.json"), *self.folder.glob("arrays/*/key.json")]):
            with contextlib.suppress(FileNotFoundError):  # another process may clear the store meanwhile
                facts, last_use = json.loads(note.read_text()), note.stat().st_mtime
                yield note.parent, Entry(facts["key"], facts["description"], _bytes(note.parent), last_use)


def _filled(
    home: Path,
    bucket: str,
    wanted: list[str],
    compute: Callable[[list[str]], tuple[np.ndarray, ...]],
    wait: bool,
    stage: Stage,
) -> list[Chunk] | None:
    """The bucket's chunks once they hold all wanted rows; None if another process fills it and we do not wait."""
    chunks, _ = _open(home, bucket)
    if not _missing(wanted, chunks):
        stage.advance(len(wanted))
        return chunks
    with locked(home / f"{bucket}.lock", wait=wait) as ours:
        if not ours:
            return None
        chunks, damaged = _open(home, bucket)
        # with the lock held, a temporary file belongs to a dead writer
        for path in (*damaged, *home.glob(f".{bucket}-*.tmp")):
            path.unlink(missing_ok=True)
        missing = _missing(wanted, chunks)
        stage.advance(len(wanted) - len(missing))
        number = 1 + max((int(chunk.path.stem.split("-")[1]) for chunk in chunks), default=-1)
        for start in range(0, len(missing), CHUNK):
            part = missing[start : start + CHUNK]
            path = home / f"{bucket}-{number + start // CHUNK}.safetensors"
            before = stage.done
            chunks.append(write_chunk(path, part, compute(part)))
            stage.reach(before + len(part))
    return chunks


def _open(home: Path, bucket: str) -> tuple[list[Chunk], list[Path]]:
    """Valid chunks, and the paths of damaged ones."""
    check = _bytes(home) < IN_MEMORY
    opened = {path: open_chunk(path, check=check) for path in sorted(home.glob(f"{bucket}-*.safetensors"))}
    chunks = [chunk for chunk in opened.values() if chunk is not None]
    return chunks, [path for path, chunk in opened.items() if chunk is None]


def _missing(wanted: list[str], chunks: list[Chunk]) -> list[str]:
    there = {digest for chunk in chunks for digest in chunk.digests}
    return [digest for digest in wanted if digest not in there]


def _read(path: Path) -> dict[str, np.ndarray] | None:
    content = read_arrays(path, check=True) if path.exists() else None
    return None if content is None else {name: np.array(array) for name, array in content[0].items()}


def _bytes(home: Path) -> int:
    total = 0
    for path in home.glob("*.safetensors"):
        with contextlib.suppress(FileNotFoundError):  # removed by another process
            total += path.stat().st_size
    return total


def _bucket(digest: str) -> str:
    return f"{hashlib.blake2b(digest.encode(), digest_size=1).digest()[0] % _BUCKETS:x}"
