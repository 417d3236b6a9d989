"""Temporary folders beside their target, from which whole files and folders are renamed into place."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
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
        for left in [place for place in there.iterdir() if place.name.startswith(start)]:
            process = left.name.removeprefix(start).split("~")[0]
            if process.isdigit() and left.suffix == ".tmp" and not is_alive(int(process)):
                shutil.rmtree(left, ignore_errors=True)
        made = next(there / name for name in names if not (there / name).exists())
        made.mkdir()
    except OSError as error:
        raise cannot_write(folder, error) from error
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
