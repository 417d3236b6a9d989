"""Temporary folders: beside a target, from which whole files and folders are renamed into place, or of a process.

Their names contain the machine and the process, so that a later process can remove those that a killed one left.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from levelfield.files.writing import cannot_write


@contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """A new folder on the file system of `folder`, from which it can be renamed to it; removed at the end.

    Those that killed processes of this machine left for the same target are removed, too.
    """
    there = next(place for place in (folder, *folder.absolute().parents) if place.is_dir())
    start = f".{folder.name}.{socket.gethostname()}~"
    names = (f"{start}{os.getpid()}~{number}.tmp" for number in itertools.count())
    try:
        _remove_left(there, start)
        made = next(there / name for name in names if not (there / name).exists())
        made.mkdir()
    except OSError as error:
        raise cannot_write(folder, error) from error
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def scratch_folder(home: Path, name: str) -> Iterator[Path]:
    """A new folder in `home`, which only this user can read; removed at the end.

    Those of the same name that killed processes of this machine left are removed, too.
    """
    start = f"{name}~{socket.gethostname()}~"
    home.mkdir(parents=True, exist_ok=True)
    with suppress(PermissionError):  # a folder that can be written may be unreadable
        _remove_left(home, start)
    made = home / f"{start}{os.getpid()}~{uuid.uuid4().hex}"
    made.mkdir(mode=0o700)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def is_alive(process: int) -> bool:
    """Whether a process of this machine exists."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # of another user
        return True
    return True


def _remove_left(home: Path, start: str) -> None:
    """Remove the folders of dead processes: `start`, the process, "~" and anything."""
    for left in [place for place in home.iterdir() if place.name.startswith(start)]:
        process, tilde, _ = left.name.removeprefix(start).partition("~")
        if tilde and process.isdigit() and not is_alive(int(process)):
            shutil.rmtree(left, ignore_errors=True)
