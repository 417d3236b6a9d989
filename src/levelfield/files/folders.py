"""Folders: the cache, and temporary ones, from which whole files and folders are renamed to their final place."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from levelfield.files.writing import cannot_write, expanded, remove_leftovers, temporary_path


def default_cache_folder() -> Path:
    """`LEVELFIELD_CACHE` if set, else the user's cache folder / levelfield. Nothing is created.

    >>> default_cache_folder().is_absolute()
    True
    """
    chosen = os.environ.get("LEVELFIELD_CACHE")
    if chosen:
        return expanded(chosen).absolute()
    home = os.environ.get("XDG_CACHE_HOME")
    return (expanded(home).absolute() if home else Path.home() / ".cache") / "levelfield"


@contextmanager
def temporary_folder(target: Path, *, mode: int = 0o777) -> Iterator[Path]:
    """A new folder on the file system of `target`, from which it can be renamed to it; removed at the end.

    Those that killed processes of this machine left are removed, too.
    """
    home = next(folder for folder in (target, *target.absolute().parents) if folder.is_dir())
    try:
        with suppress(PermissionError):  # a folder that can be written may be unreadable
            remove_leftovers(home)
        folder = _new_folder(home / target.name, mode)
    except OSError as error:
        raise cannot_write(target, error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _new_folder(target: Path, mode: int) -> Path:
    for number in itertools.count():
        folder = temporary_path(target, number)
        with suppress(FileExistsError):  # of another thread
            folder.mkdir(mode)
            break
    return folder


@contextmanager
def scratch_folder(home: Path, name: str) -> Iterator[Path]:
    """A new folder in `home`, which only this user can read; removed at the end."""
    home.mkdir(parents=True, exist_ok=True)
    with temporary_folder(home / name, mode=0o700) as folder:
        yield folder
