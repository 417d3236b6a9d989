"""Read arrays from .npy and .npz files. Nothing is unpickled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from numpy.lib.npyio import NpzFile

from levelfield.files.reading import damaged, opened

NUMBERS = "biuf"  # numpy dtype kinds: bool, int, unsigned, float
PLAIN = NUMBERS + "US"  # and text
_MOST_UNPACKED = 1_000_000_000  # bytes of a .npz file; more if it is large itself


def read_array(path: Path, *, kinds: str = NUMBERS) -> np.ndarray:
    """Memory-map the array of a .npy file. kinds: allowed numpy dtype kinds."""
    with opened(path) as file, _valid(path, ".npy"):
        array = np.lib.format.open_memmap(path, mode="r")
        if (size := os.fstat(file.fileno()).st_size) != array.offset + array.nbytes:
            raise ValueError(f"its header declares {array.offset + array.nbytes:,} bytes, but it has {size:,}")
    _check_kind(array, path, kinds)
    return array


def read_arrays(path: Path, *, kinds: str = NUMBERS) -> dict[str, np.ndarray]:
    """Read all arrays of a .npz file by name and verify their checksums."""
    with opened(path) as file, _valid(path, ".npz"), ZipFile(file) as packed, NpzFile(file) as archive:
        unpacked = sum(member.file_size for member in packed.infolist())
        if unpacked > (most := max(_MOST_UNPACKED, 10 * os.fstat(file.fileno()).st_size)):
            raise ValueError(f"it unpacks to {unpacked:,} bytes; the limit is {most:,}")
        arrays = dict(archive)
    for name, array in arrays.items():
        _check_kind(array, path / name, kinds)
    return arrays


@contextmanager
def _valid(path: Path, kind: str) -> Iterator[None]:
    """Context in which any error is that of a damaged file."""
    try:
        yield
    except Exception as error:  # numpy and zipfile raise almost anything for a damaged file
        if any(words in str(error) for words in ("Python objects", "Object arrays")):  # as numpy says it
            why = "contains Python objects, which are not loaded because they can run code. Save numbers or text: "
            raise damaged(path, f"{why}np.save('y.npy', labels.astype(str))") from error
        reason = str(error).rstrip(".") or type(error).__name__
        empty = "is empty" if not path.stat().st_size else f"is not a valid {kind} file, or it is truncated: {reason}"
        raise damaged(path, empty) from error


def _check_kind(array: np.ndarray, path: Path, kinds: str) -> None:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds:
        content = f"{array.dtype}" if isinstance(array, np.ndarray) else "no array"
        raise damaged(path, f"contains {content}; expected {'numbers' if kinds == NUMBERS else 'numbers or text'}")
