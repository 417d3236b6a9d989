"""Archives are unpacked once, into the cache: whole or not at all. Afterwards everything is a plain file.

(Reading members in place would give every process its own handle, and a compressed tar cannot be read out of order.)
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from levelfield.data._places import default_cache_folder
from levelfield.errors import BadInput
from levelfield.files import locked

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

_log = logging.getLogger(__name__)
_DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError,
)


def is_archive(path: Path) -> bool:
    """Whether the name is that of an archive.

    >>> is_archive(Path("CUB_200_2011.tgz")), is_archive(Path("photos"))
    (True, False)
    """
    return path.name.lower().endswith(SUFFIXES)


def stem(archive: Path) -> str:
    """Its name without what makes it an archive.

    >>> stem(Path("photos.tar.gz"))
    'photos'
    """
    name = archive.name
    return name[: -max(len(suffix) for suffix in SUFFIXES if name.lower().endswith(suffix))]


def unpacked(archive: Path, *, cache: Path | None = None) -> Path:
    """The folder that holds the content of `archive`, archives inside it unpacked as well.

    It lies in the cache under a name made of the archive's place, size and time: another file, another folder. What
    was half done when a process was killed is thrown away by the next one.
    """
    shelf = (cache or default_cache_folder()) / "unpacked"
    folder = shelf / f"{stem(archive)}-{_identity(archive)}"
    if folder.is_dir():
        return folder
    with locked(shelf / f".{folder.name}.lock"):
        if not folder.is_dir():  # another process may have done it while this one waited
            _log.warning("%s is unpacked once, into %s", archive, folder)
            half = shelf / f".{folder.name}.tmp"
            shutil.rmtree(half, ignore_errors=True)
            try:
                half.mkdir(parents=True)
                _unpack(archive, half)
                half.rename(folder)
            except OSError as error:
                raise BadInput(f"Cannot unpack {archive} into {shelf}: {error.strerror or error}. Make room, set "
                               "LEVELFIELD_CACHE to another place, or unpack it yourself.") from error
            finally:
                shutil.rmtree(half, ignore_errors=True)
    return folder


def _unpack(archive: Path, target: Path) -> None:
    """The archive, then those inside it: each into a folder of its own name, if it does not bring that itself."""
    _extract(archive, target)
    while inner := sorted(path for path in target.rglob("*") if path.is_file() and is_archive(path)):
        for one in inner:
            home = one.parent if _first_folder(one) == stem(one) else one.parent / stem(one)
            _extract(one, home)
            one.unlink()


def _extract(archive: Path, target: Path) -> None:
    """All files but hidden ones."""
    target.mkdir(exist_ok=True)
    with _complete(archive), _opened(archive) as (members, size, read):
        if size > (free := shutil.disk_usage(target).free):
            raise OSError(f"{size / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free")
        for name, member in members:
            place = _inside(archive, target, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            with closing(read(member)) as source, place.open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)


def _first_folder(archive: Path) -> str | None:
    """Of its first file: archives of one folder are written in one go."""
    with _complete(archive), _opened(archive) as (members, _, _):
        name, _ = next(members, ("", None))
        return PurePosixPath(name).parts[0] if name else None


@contextmanager
def _complete(archive: Path) -> Iterator[None]:
    """What a damaged archive raises becomes one message."""
    try:
        yield
    except _DAMAGED as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(":")  # tarfile tells of all it tried
        raise BadInput(f"{archive.name} is damaged or was not downloaded to its end ({reason}). "
                       "Nothing of it was kept; download it again.") from error


@contextmanager
def _opened(archive: Path) -> Iterator[tuple[Iterator[tuple[str, Any]], int, Any]]:
    """(name, member) of its visible files, their size unpacked if that is known at once, and how to read one."""
    if archive.name.lower().endswith(".zip"):
        with zipfile.ZipFile(archive) as opened:
            entries = [info for info in opened.infolist() if not info.is_dir() and _visible(info.filename)]
            yield ((e.filename, e) for e in entries), sum(e.file_size for e in entries), opened.open
    else:
        with tarfile.open(archive) as packed:
            # one after the other: to know all names of a compressed tar first is to read it twice
            files = ((member.name, member) for member in packed if member.isfile() and _visible(member.name))
            plain = archive.stat().st_size if archive.name.lower().endswith(".tar") else 0
            yield files, plain, lambda member: _file_of(packed, member)


def _file_of(packed: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    found = packed.extractfile(member)
    assert found is not None  # it is a file
    return found


def _visible(name: str) -> bool:
    """No dot files, nothing of macOS's own folder."""
    parts = [part for part in PurePosixPath(name).parts if part not in (".", "/")]
    return bool(parts) and not parts[-1].startswith(".") and "__MACOSX" not in parts


def _inside(archive: Path, target: Path, name: str) -> Path:
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or "\\" in name:
        raise BadInput(f"{archive} holds '{name}', which leads out of the folder it is unpacked into; it is refused.")
    return target.joinpath(*parts)


def _identity(archive: Path) -> str:
    try:
        state = archive.stat()
    except OSError as error:
        raise BadInput(f"Cannot read {archive}: {error.strerror or error}.") from error
    text = f"{os.fspath(archive.resolve())} {state.st_size} {state.st_mtime_ns}"
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
