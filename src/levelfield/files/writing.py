"""Atomic file writes: write under a temporary name, flush, rename; and the folders of temporary and cached files.

A temporary name contains the machine and the process, so that a later process can remove what a killed one left.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import math
import os
import re
import shutil
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from levelfield.errors import BadInput
from levelfield.files.reading import opened

LONGEST_NAME = 255  # bytes, the limit of common file systems
_ATTEMPTS = 1000  # to lock a file that other processes make and remove


def expanded(path: Path | str) -> Path:
    """Expand `~` to the home folder and validate the path.

    >>> expanded("~nobody-of-this-name/photos")
    Traceback (most recent call last):
    ...
    levelfield.errors.BadInput: Cannot expand '~nobody-of-this-name/photos': no home folder. Use an absolute path.
    """
    if not isinstance(path, str | Path):
        raise BadInput(f"Expected a path, got {path!r}.")
    if "\0" in str(path) or any(len(os.fsencode(part)) > LONGEST_NAME for part in Path(path).parts):
        shown = f"{str(path)[:40]!a}{'...' if len(str(path)) > 40 else ''}"
        raise BadInput(f"{shown} is not a valid path: a name in it contains NUL or has more than {LONGEST_NAME} bytes.")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise BadInput(f"Cannot expand '{path}': no home folder. Use an absolute path.") from error


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Call `write` with an open binary file, which becomes `path` only when it is complete and on disk.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "a.txt"
    >>> write_whole(target, lambda file: file.write(b"whole"))
    >>> target.read_text()
    'whole'
    """
    if not path.name:
        raise BadInput(f"Cannot write {path}: this is not a file name.")
    if path.exists() and not path.is_file() and not path.is_dir():
        raise BadInput(f"Cannot write {path}: it is not a regular file.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _moved_into(path) as temporary, temporary.open("xb") as file:  # a new file: never follow an existing link
            write(file)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise cannot_write(path, error) from error


@contextmanager
def _moved_into(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, to which it is renamed at the end; after an error it is removed."""
    _remove_leftovers_once(path.parent.absolute())
    temporary = temporary_path(path)
    temporary.unlink(missing_ok=True)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        with suppress(OSError):  # if nothing could be written, there is nothing to remove
            temporary.unlink(missing_ok=True)


def temporary_path(path: Path, number: int = 0) -> Path:
    """A name beside `path` that `remove_leftovers` recognises once this process has ended."""
    return path.with_name(f".{path.name}.{socket.gethostname()}~{os.getpid()}~{number}.tmp")


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files and folders that ended processes of this machine left in `folder`."""
    pattern = re.compile(rf"\..*\.{re.escape(socket.gethostname())}~(\d+)~\d+\.tmp")
    for path in list(folder.iterdir()):
        match = pattern.fullmatch(path.name)
        if match and not is_alive(int(match[1])):
            with suppress(OSError):  # of another user
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


@lru_cache(4096)
def _remove_leftovers_once(folder: Path) -> None:
    """At the first write of this process into the folder: listing it for every file would be slow."""
    with suppress(PermissionError):  # a folder that can be written may be unreadable
        remove_leftovers(folder)


def is_alive(process: int) -> bool:
    """Whether a process of this machine exists."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # of another user
        return True
    return True


def cannot_write(path: Path, error: Exception) -> BadInput:
    """The error for a file that could not be written."""
    ways = "Nothing was lost; choose another folder or free some space, then run the command again."
    return BadInput(f"Cannot write {path}: {_reason(error)}. {ways}")


def _reason(error: Exception) -> str:
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "a parent of this path is a file, not a folder"
    return (error.strerror if isinstance(error, OSError) else None) or " ".join(str(error).split()).rstrip(".")


def write_text(path: Path, text: str) -> None:
    write_whole(path, lambda file: file.write(text.encode()))


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_forms(folder: Path, name: str, data: Any, *, csv: str, markdown: str) -> list[Path]:
    """Write a table as NAME.json, .csv and .md; returns the paths."""
    paths = [folder / f"{name}.{suffix}" for suffix in ("json", "csv", "md")]
    write_json(paths[0], data)
    write_text(paths[1], csv)
    write_text(paths[2], markdown)
    return paths


def finite(value: Any) -> Any:
    """Plain data with None for NaN and infinity."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock file `path`; yield False immediately if another process holds it and `wait` is False.

    The kernel releases the lock whenever the process ends, even if it is killed. Its holder may remove the file.
    A file system without locks raises OSError.
    """
    handle = _lock_file(path, wait)
    if handle is None:
        yield False
        return
    with handle:
        try:
            yield True
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)


def _lock_file(path: Path, wait: bool) -> IO[bytes] | None:
    """The open and locked file; None if another process holds it and `wait` is False."""
    for _ in range(_ATTEMPTS):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = path.open("a+b")
        except FileNotFoundError:  # another process has just removed the folder
            continue
        except OSError as error:
            raise BadInput(f"Cannot write {path}: {_reason(error)}.") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError as error:
            handle.close()
            if isinstance(error, BlockingIOError):
                return None
            raise
        if os.fstat(handle.fileno()).st_nlink:
            return handle
        handle.close()  # its holder has removed the file: a lock on it excludes nobody
    raise BadInput(f"Cannot write {path}: other processes remove it again and again.")


def copy_whole(source: Path, target: Path) -> None:
    """Write the content of `source` to `target`, which shares nothing with it."""
    with opened(source) as content:
        write_whole(target, lambda file: shutil.copyfileobj(content, file))


def link_whole(source: Path, target: Path) -> None:
    """Make `target` a hard link to `source`, or a copy if the file system does not support links.

    Sharing a file is safe because files are never changed in place: a write always creates a new file.

    >>> import tempfile
    >>> home = Path(tempfile.mkdtemp())
    >>> write_text(home / "a.txt", "first")
    >>> link_whole(home / "a.txt", home / "copy" / "a.txt")
    >>> write_text(home / "a.txt", "second")
    >>> (home / "copy" / "a.txt").read_text()
    'first'
    """
    if source.is_symlink():
        raise BadInput(f"{source} is a link to {source.resolve()}. All files to combine must be in their own folder.")
    real = source.resolve()
    if target.exists() and target.samefile(real):
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _moved_into(target) as temporary:
            os.link(real, temporary)
    except OSError:  # another file system, or one without links
        copy_whole(real, target)


def default_cache_folder() -> Path:
    """`LEVELFIELD_CACHE` if set, else the user's cache folder / levelfield. Nothing is created.

    >>> default_cache_folder().is_absolute()
    True
    """
    if chosen := os.environ.get("LEVELFIELD_CACHE"):
        return expanded(chosen).absolute()
    return expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache").absolute() / "levelfield"


@contextmanager
def temporary_folder(target: Path, *, mode: int = 0o777) -> Iterator[Path]:
    """A new folder on the file system of `target`, from which it can be renamed to it; removed at the end.

    Those that killed processes of this machine left are removed, too.
    """
    home = next(folder for folder in (target, *target.absolute().parents) if folder.is_dir())
    try:
        with suppress(PermissionError):  # a folder that can be written may be unreadable
            remove_leftovers(home)
        for number in itertools.count():
            folder = temporary_path(home / target.name, number)
            with suppress(FileExistsError):  # of another thread
                folder.mkdir(mode)
                break
    except OSError as error:
        raise cannot_write(target, error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def scratch_folder(home: Path, name: str) -> Iterator[Path]:
    """A new folder in `home`, which only this user can read; removed at the end."""
    home.mkdir(parents=True, exist_ok=True)
    target = home / f"{name}-{uuid.uuid4().hex}"  # there is none: the new folder would be inside it
    with temporary_folder(target, mode=0o700) as folder:
        yield folder
