"""Read file contents after checking the file's type and size."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from levelfield.errors import Damaged

MEGABYTE = 1_000_000


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file for reading; refuse folders, pipes, link loops and missing files."""
    try:
        # non-blocking: opening a pipe would otherwise wait for a writer
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: the path contains NUL
        raise damaged(path, reason(error)) from error
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise damaged(path, "is a folder" if stat.S_ISDIR(mode) else "is not a regular file")
    with os.fdopen(handle, "rb") as file:
        yield file


def read_bytes(path: Path, *, most: int) -> bytes:
    """Read the bytes of a file of at most `most` bytes.

    >>> import tempfile
    >>> written = Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = written.write_text("three")
    >>> read_bytes(written, most=4)
    Traceback (most recent call last):
    ...
    levelfield.errors.Damaged: ...a.txt has 5 bytes; the limit is 4.
    """
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise damaged(path, f"has {size:,} bytes; the limit is {most:,}")
        return file.read(most)


def read_text(path: Path, *, most: int = 8 * MEGABYTE) -> str:
    """Read a UTF-8 text file."""
    content = read_bytes(path, most=most)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise damaged(path, f"is not UTF-8 text: byte {error.start:,} is 0x{content[error.start]:02x}") from error


def read_json(path: Path, *, most: int = 8 * MEGABYTE) -> Any:
    """Read a JSON file."""
    text = read_text(path, most=most)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"is not valid JSON: {error}" if text.strip() else "is empty") from error


def checksum(path: Path) -> str:
    """Digest of a file's content."""
    with opened(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def digest(content: str | bytes, *, size: int = 6) -> str:
    """Digest of a text or of bytes: `size` bytes as hexadecimal digits."""
    return hashlib.blake2b(content.encode() if isinstance(content, str) else content, digest_size=size).hexdigest()


def damaged(path: Path, why: str) -> Damaged:
    """Create the error for an unusable file; `why` completes a sentence that starts with the path.

    >>> print(damaged(Path("run/metrics.json"), "is empty"))
    run/metrics.json is empty.
    """
    return Damaged(f"{path} {why}.")


def reason(error: Exception) -> str:
    """Reason why a file could not be opened or read, to complete a sentence that starts with the path."""
    known: dict[type, str] = {
        FileNotFoundError: "does not exist",
        IsADirectoryError: "is a folder",
        NotADirectoryError: "has a file, not a folder, as its parent",
    }
    return known.get(type(error)) or f"cannot be read: {getattr(error, 'strerror', None) or error}"
