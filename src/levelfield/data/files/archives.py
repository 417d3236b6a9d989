"""Unpack archives once into the cache, completely or not at all, so that all data are plain files.

(Reading members in place would need a handle per process, and a compressed tar cannot be read out of order.)
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from pathlib import Path

from levelfield.data.files.archive_members import Allowance, copied, damage_told, files_of, size_of
from levelfield.errors import BadInput
from levelfield.files.folders import default_cache_folder
from levelfield.files.writing import locked

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
DEEPEST = 3  # archives inside archives; benchmarks have one level

_log = logging.getLogger(__name__)


def is_archive(path: Path) -> bool:
    """Whether the file name is that of an archive.

    >>> is_archive(Path("CUB_200_2011.tgz")), is_archive(Path("photos"))
    (True, False)
    """
    return path.name.lower().endswith(SUFFIXES)


def stem(archive: Path) -> str:
    """The file name without the archive suffix.

    >>> stem(Path("photos.tar.gz"))
    'photos'
    """
    name = archive.name
    return name[: -max(len(suffix) for suffix in SUFFIXES if name.lower().endswith(suffix))]


def unpacked(archive: Path, *, cache: Path | None = None) -> Path:
    """The folder with the content of `archive`, including nested archives.

    The folder is in the cache under a name made of the archive's path, size and time. Partial results of a killed
    process are removed by the next one.
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
    allowance = Allowance.of_size(archive.stat().st_size, archive.name)
    _extract(archive, target, allowance)
    for _ in range(DEEPEST):
        inner = sorted(path for path in target.rglob("*") if path.is_file() and is_archive(path))
        for one in inner:
            home = one.parent if _first_folder(one) == stem(one) else one.parent / stem(one)
            _extract(one, home, allowance)
            one.unlink()
        if not inner:
            return
    raise BadInput(f"{archive.name} contains archives nested more than {DEEPEST} levels deep: unpack it yourself.")


def _extract(archive: Path, target: Path, allowance: Allowance) -> None:
    """Extract all files except hidden ones."""
    target.mkdir(exist_ok=True)
    size, free = size_of(archive), shutil.disk_usage(target).free
    if size > allowance.left:
        allowance.take(size)
    if size > free:
        raise OSError(f"{size / 1e9:.1f} GB needed, {free / 1e9:.1f} GB free")
    with damage_told(archive):
        for place, content in files_of(archive, allowance):
            try:
                (target / place).parent.mkdir(parents=True, exist_ok=True)
                copied(content, target / place)
            except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
                raise BadInput(f"{archive.name} contains '{place}' twice, as a file and as a folder.") from error


def _first_folder(archive: Path) -> str | None:
    """The top folder of the first member."""
    allowance = Allowance.of_size(archive.stat().st_size, archive.name)
    with damage_told(archive):
        return next((place.parts[0] for place, _ in files_of(archive, allowance)), None)


def _identity(archive: Path) -> str:
    try:
        state = archive.stat()
    except OSError as error:
        raise BadInput(f"Cannot read {archive}: {error.strerror or error}.") from error
    text = f"{os.fspath(archive.resolve())} {state.st_size} {state.st_mtime_ns}"
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
