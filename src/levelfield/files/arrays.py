"""Read arrays from .npy and .npz files. Nothing is unpickled, and headers are checked against the file size."""

from __future__ import annotations

import math
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from levelfield.errors import BadInput
from levelfield.files.reading import MEGABYTE, damaged, opened

NUMBERS = "biuf"  # numpy dtype kinds: bool, int, unsigned, float
PLAIN = NUMBERS + "US"  # and text
_MEMBERS = 1_000
_UNPACKED = 1_000 * MEGABYTE  # bytes a compressed array may unpack to, whatever its file size
_RATIO = 100
_DIRECTORY_END = struct.Struct("<4s4H2LH")
_FAULTS = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, KeyError, IndexError, RuntimeError,
    NotImplementedError, OverflowError, MemoryError,
)  # fmt: skip  # raised by zipfile for damaged archives


class _Header(NamedTuple):
    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype
    begin: int

    @property
    def size(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def read_array(path: Path, *, kinds: str = NUMBERS) -> np.ndarray:
    """Memory-map the array of a .npy file. kinds: allowed numpy dtype kinds."""
    with opened(path) as file:
        header = _header(file, path, kinds, os.fstat(file.fileno()).st_size)
        if not header.size:
            return np.zeros(header.shape, header.dtype)
        mapped: Any = np.memmap
        array: np.ndarray = mapped(file, header.dtype, "r", header.begin, header.shape, "FC"[not header.by_columns])
        vars(array)["filename"] = os.path.abspath(path)  # numpy knows it only of files that it opens itself
        return array


def read_arrays(path: Path, *, kinds: str = NUMBERS, compressed: bool = False) -> dict[str, np.ndarray]:
    """Read all arrays of a .npz file by name and verify their checksums.

    compressed: whether arrays may be compressed; each may then unpack to 1 GB or 100 times the file size.
    """
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        _check_directory(file, path, size)
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                for member in members:
                    _check_size(member, path, size, compressed)
                names = [member.filename.removesuffix(".npy") for member in members]
                return {name: _member(archive, each, path, kinds) for name, each in zip(names, members, strict=True)}
        except BadInput:
            raise
        except _FAULTS as error:
            reason = str(error).rstrip(".") or type(error).__name__
            raise damaged(path, f"is not a valid .npz file: {reason}") from error


def _check_directory(file: IO[bytes], path: Path, size: int) -> None:
    """Refuse a file that is not a small archive, before reading its list of members."""
    tail_size = min(size, _DIRECTORY_END.size + 20)
    file.seek(size - tail_size)
    tail = file.read(tail_size)
    if len(tail) < _DIRECTORY_END.size:
        raise damaged(path, "is not an .npz file: it is empty" if not size else "is not an .npz file: it is too short")
    mark, *_, count, length, _, _ = _DIRECTORY_END.unpack(tail[-_DIRECTORY_END.size :])
    if mark != b"PK\5\6":
        raise damaged(path, "is not an .npz file, or it is truncated")
    if count > _MEMBERS or length > MEGABYTE or tail.startswith(b"PK\6\7"):
        raise damaged(path, f"contains more than {_MEMBERS:,} arrays or 4 GB; save a large array as .npy")
    file.seek(0)


def _check_size(member: zipfile.ZipInfo, path: Path, size: int, compressed: bool) -> None:
    stored = member.compress_type == zipfile.ZIP_STORED
    if not (stored or compressed):
        raise damaged(path / member.filename, "is compressed; only uncompressed files are supported")
    if member.file_size > (size if stored else max(_UNPACKED, _RATIO * size)):
        raise damaged(path / member.filename, f"declares {member.file_size:,} bytes, but the file has only {size:,}")


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path, kinds: str) -> np.ndarray:
    inside = path / member.filename  # the name in error messages
    with archive.open(member) as file:
        header = _header(file, inside, kinds, member.file_size)
        content = file.read()  # to the end, where zipfile compares the checksum
    if len(content) != header.size:
        raise damaged(inside, "is truncated")
    return np.frombuffer(content, header.dtype).reshape(header.shape, order="F" if header.by_columns else "C")


def _header(file: IO[bytes], path: Path, kinds: str, size: int) -> _Header:
    """Parse the header of an array and check it against the file size."""
    try:
        first = np.lib.format.read_magic(file) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
        header = _Header(*read(file), begin=file.tell())
    except Exception as error:  # numpy parses a header as Python and can raise almost anything
        raise damaged(path, "is empty" if not size else "is not an array: its header is invalid") from error
    if header.dtype.hasobject:
        raise damaged(
            path,
            "contains Python objects, which are not loaded because they can run code. Save numbers or text: "
            "np.save('y.npy', labels.astype(str))",
        )
    if header.dtype.kind not in kinds or header.dtype.subdtype is not None:
        raise damaged(path, f"contains {header.dtype}; expected {'numbers' if kinds == NUMBERS else 'numbers or text'}")
    if min(header.shape, default=0) < 0 or header.size != size - header.begin:
        declared = f"an array {header.shape} of {header.dtype}"
        raise damaged(path, f"declares {declared} but has {size - header.begin:,} bytes: it is truncated or damaged")
    return header
