"""Folders: the cache, and temporary ones, from which whole files and folders are renamed to their final place."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from levelfield.files.writing import cannot_write, expanded, is_alive, remove_leftovers, temporary_path


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
def temporary_folder(target: Path) -> Iterator[Path]:
    """A new folder on the file system of `target`, from which it can be renamed to it; removed at the end."""
    home = next(folder for folder in (target, *target.absolute().parents) if folder.is_dir())
    paths = (temporary_path(home / target.name, number) for number in itertools.count())
    try:
        remove_leftovers(home)
        folder = next(path for path in paths if not path.exists())
        folder.mkdir()
    except OSError as error:
        raise cannot_write(target, error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def scratch_folder(home: Path, name: str) -> Iterator[Path]:
    """A new folder in `home`, which only this user can read; removed at the end.

    Those of the same name that killed processes of this machine left are removed, too.
    """
    start = f"{name}~{socket.gethostname()}~"
    home.mkdir(parents=True, exist_ok=True)
    with suppress(PermissionError):  # a folder that can be written may be unreadable
        for left in [path for path in home.iterdir() if path.name.startswith(start)]:
            process, tilde, _ = left.name.removeprefix(start).partition("~")
            if tilde and process.isdigit() and not is_alive(int(process)):
                shutil.rmtree(left, ignore_errors=True)
    folder = home / f"{start}{os.getpid()}~{uuid.uuid4().hex}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
