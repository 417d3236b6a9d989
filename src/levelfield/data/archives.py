"""Unpack archives once into the cache, completely or not at all, so that all data are plain files.

Only plain files inside one folder are unpacked, within a limit of bytes. (Reading members in place would need a handle
per process, and a compressed tar cannot be read out of order.)
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import logging
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from levelfield.errors import BadInput, BadSpecification
from levelfield.files.writing import default_cache_folder, locked

VARIABLE = "LEVELFIELD_UNPACK"
RATIO = 50  # unpacked size / archive size: photographs have about 1, drawings and text up to 20
MIN_ALLOWED_BYTES = 200_000_000  # bytes that any archive may unpack to
_BLOCK = 512  # minimum bytes counted per file: empty files fill a disk too
_ENCRYPTED = 1  # bit of a zip member's flags
_UNPACKERS: dict[bytes, Callable[[Any], Any]] = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}
_BAD_FORMAT = (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
_DAMAGED = (*_BAD_FORMAT, EOFError, ValueError, OverflowError, RuntimeError, MemoryError)
SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
DEEPEST = 3  # archives inside archives; benchmarks have one level

_log = logging.getLogger(__name__)


def is_archive(path: Path) -> bool:
    """Whether the file name is that of an archive."""
    return path.name.lower().endswith(SUFFIXES)


def _is_zip(archive: Path) -> bool:
    return archive.name.lower().endswith(".zip")


def stem(archive: Path) -> str:
    """The file name without the archive suffix."""
    name = archive.name
    return name[: -max(len(suffix) for suffix in SUFFIXES if name.lower().endswith(suffix))]


def unpacked(archive: Path, *, cache: Path | None = None) -> Path:
    """The folder in the cache with the content of `archive`, including nested archives.

    Its name is made of the archive's path, size and time. The next process removes what a killed one left.
    """
    shelf = (cache or default_cache_folder()) / "unpacked"
    folder = shelf / f"{stem(archive)}-{_identity(archive)}"
    if folder.is_dir():
        return folder
    with locked(shelf / f".{folder.name}.lock"):
        if not folder.is_dir():  # another process may have unpacked it meanwhile
            _log.warning("Unpacking %s into %s (first time only)", archive, folder)
            half = shelf / f".{folder.name}.tmp"
            shutil.rmtree(half, ignore_errors=True)
            try:
                half.mkdir(parents=True)
                _unpack(archive, half)
                half.rename(folder)
            except OSError as error:
                raise BadInput(
                    f"Cannot unpack {archive} into {shelf}: {error.strerror or error}. Free some space, set "
                    "LEVELFIELD_CACHE to another folder, or unpack the archive yourself."
                ) from error
            finally:
                shutil.rmtree(half, ignore_errors=True)
    return folder


def _unpack(archive: Path, target: Path) -> None:
    """Unpack the archive, then nested ones: each into a folder of its own name, unless it contains that folder."""
    allowance = Allowance(archive)
    _extract(archive, target, allowance)
    for _ in range(DEEPEST):
        inner = sorted(path for path in target.rglob("*") if path.is_file() and is_archive(path))
        for nested in inner:
            home = nested.parent if _first_folder(nested) == stem(nested) else nested.parent / stem(nested)
            _extract(nested, home, allowance)
            nested.unlink()
        if not inner:
            return
    raise BadInput(f"{archive.name} contains archives nested more than {DEEPEST} levels deep: unpack it yourself.")


def _extract(archive: Path, target: Path, allowance: Allowance) -> None:
    """Extract all files except hidden ones."""
    target.mkdir(exist_ok=True)
    with _one_message(archive):
        size, free = archive.stat().st_size, shutil.disk_usage(target).free
        if _is_zip(archive):  # a tar has no list; of photographs it is about as large as its content
            with zipfile.ZipFile(archive) as opened:
                size = sum(info.file_size for info in opened.infolist())
        if free < size <= allowance.left:
            raise OSError(f"{size / 1e9:.1f} GB needed, {free / 1e9:.1f} GB free")
        for path, content in _files_of(archive, allowance):
            try:
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                with (target / path).open("wb") as file:
                    shutil.copyfileobj(content, file)
            except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
                raise BadInput(f"{archive.name} contains '{path}' twice, as a file and as a folder.") from error


def _first_folder(archive: Path) -> str | None:
    """The top folder of the first member."""
    with _one_message(archive):
        return next((path.parts[0] for path, _ in _files_of(archive, Allowance(archive))), None)


def _identity(archive: Path) -> str:
    try:
        state = archive.stat()
    except OSError as error:
        raise BadInput(f"Cannot read {archive}: {error.strerror or error}.") from error
    text = f"{os.fspath(archive.resolve())} {state.st_size} {state.st_mtime_ns}"
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


class Allowance:
    """The number of bytes that an archive, with nested archives, may unpack to: by its size, or LEVELFIELD_UNPACK."""

    def __init__(self, archive: Path) -> None:
        self._name, self.most = archive.name, max(MIN_ALLOWED_BYTES, RATIO * archive.stat().st_size)
        if value := os.environ.get(VARIABLE):
            try:
                self.most = int(float(value) * 1e9)
            except (ValueError, OverflowError) as error:
                raise BadSpecification(f"{VARIABLE} is '{value}'; it must be a number of GB, such as 20.") from error
        self.left = self.most

    def take(self, count: int) -> None:
        """Count bytes that are about to be unpacked; refuse those beyond the allowance."""
        if count > self.left:
            raise BadInput(
                f"{self._name} unpacks to more than {self.most / 1e9:g} GB, the limit for an archive of its size "
                f"({RATIO} times its size, at least {MIN_ALLOWED_BYTES / 1e9:g} GB). Nothing was kept. If you trust "
                f"the archive, raise the limit (in GB: {VARIABLE}=20), or unpack it yourself."
            )
        self.left -= count


@contextmanager
def _one_message(archive: Path) -> Iterator[None]:
    """Turn the exceptions of a damaged archive into one message."""
    try:
        yield
    except _DAMAGED as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(":")  # tarfile lists all its attempts
        damage = f"is damaged or its download is incomplete ({reason})"
        raise BadInput(f"{archive.name} {damage}. Nothing was kept; download it again.") from error


def _files_of(archive: Path, allowance: Allowance) -> Iterator[tuple[PurePosixPath, IO[bytes]]]:
    """Each visible file with its path and its open content, which must be read before the next one is requested.

    Raises BadInput for encrypted files, links and devices, and for names that point outside the folder.
    """
    for name, kind, content in (_of_zip if _is_zip(archive) else _of_tar)(archive, allowance):
        path = PurePosixPath(name.replace("\\", "/"))  # Windows programs separate folders by backslashes
        if path.is_absolute() or ".." in path.parts:
            raise BadInput(f"{archive} contains '{name}', which points outside the target folder; it is refused.")
        if kind == "a folder" or not path.parts or path.name.startswith(".") or "__MACOSX" in path.parts:
            continue
        if kind != "a file":
            rule = "only regular files are unpacked. Unpack the archive yourself and pass the folder"
            raise BadInput(f"{archive.name} contains '{name}', which is {kind}: {rule}.")
        with content() as file:
            yield path, file


_Members = Iterator[tuple[str, str, Callable[[], Any]]]
"""The name and kind of each member, and how to open its content."""


def _of_zip(archive: Path, allowance: Allowance) -> _Members:
    with zipfile.ZipFile(archive) as opened:
        allowance.take(sum(max(_BLOCK, info.file_size) for info in opened.infolist()))
        for info in opened.infolist():
            link, encrypted = stat.S_ISLNK(info.external_attr >> 16), info.flag_bits & _ENCRYPTED
            kind = "encrypted" if encrypted else "a link" if link else "a file"
            kind = "a folder" if info.filename.endswith(("/", "\\")) else kind
            yield info.filename, kind, partial(opened.open, info)


def _of_tar(archive: Path, allowance: Allowance) -> _Members:
    with archive.open("rb") as raw:
        unpacker = _UNPACKERS.get(raw.read(2))
        raw.seek(0)
        plain = raw if unpacker is None else unpacker(raw)
        # sequentially: listing the names of a compressed tar first would read it twice
        with tarfile.open(fileobj=_Counted(plain, allowance), mode="r|") as opened:  # type: ignore[call-overload]
            for member in opened:
                if member.issparse():
                    allowance.take(member.size)  # holes are not in the archive
                link = "a link" if member.islnk() or member.issym() else "a device"
                kind = "a folder" if member.isdir() else "a file" if member.isfile() else link
                yield member.name, kind, partial(opened.extractfile, member)


class _Counted:
    """A stream that counts every byte, including headers and members that are not kept."""

    def __init__(self, stream: IO[bytes], allowance: Allowance) -> None:
        self._stream, self._allowance = stream, allowance

    def read(self, count: int) -> bytes:
        self._allowance.take(count)
        content = self._stream.read(count)
        self._allowance.left += count - len(content)
        return content
