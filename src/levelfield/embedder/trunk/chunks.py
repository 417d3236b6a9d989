"""Arrays in one file: written atomically, checked when read, memory-mapped. The files are ordinary safetensors."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import safetensors.numpy

from levelfield.errors import BadInput
from levelfield.files.writing import write_whole

if TYPE_CHECKING:
    from torch import Tensor

_log = logging.getLogger(__name__)
_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "U8": np.uint8}


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> None:
    """Store named arrays with a checksum of their contents."""
    plain = {name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}
    content = safetensors.numpy.save(plain, {**(metadata or {}), "checksum": str(_checksum(plain.values()))})
    write_whole(path, lambda file: file.write(content))


def read_arrays(path: Path, *, check: bool) -> tuple[dict[str, np.ndarray], dict[str, str]] | None:
    """Named arrays (mapped, read-only) and metadata; None, with a warning, if the file is damaged. `check` compares
    checksums."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, path.stat().st_size)))
        metadata = header.pop("__metadata__")
        start = 8 + length
        arrays = {name: _mapped(path, start, facts) for name, facts in sorted(header.items())}
        end = start + max((facts["data_offsets"][1] for facts in header.values()), default=0)
        if path.stat().st_size == end and not (check and str(_checksum(arrays.values())) != metadata["checksum"]):
            return arrays, metadata
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, MemoryError):
        pass  # any content is possible
    _log.warning("The cache file %s is damaged; its content will be computed again.", path)
    return None


@dataclass(frozen=True)
class Chunk:
    """Some rows of a store: one digest per row, and the same rows of each tensor.

    checksums: one per row, over all tensors; None for rows that another machine sent and no disk holds.
    """

    path: Path
    digests: tuple[str, ...]
    arrays: tuple[np.ndarray, ...]
    checksums: tuple[int, ...] | None = None


def write_chunk(path: Path, digests: Sequence[str], arrays: Sequence[np.ndarray]) -> Chunk:
    """Store the chunk and open it again."""
    named = {f"{number:03d}": array for number, array in enumerate(arrays)}
    checksums = [_checksum(array[row] for array in arrays) for row in range(len(digests))]
    write_arrays(path, named, {"digests": json.dumps(list(digests)), "checksums": json.dumps(checksums)})
    chunk = open_chunk(path, check=False)
    assert chunk is not None
    return chunk


def open_chunk(path: Path, *, check: bool) -> Chunk | None:
    """The chunk in a file; None if it is damaged."""
    content = read_arrays(path, check=check)
    if content is None:
        return None
    arrays, metadata = content
    try:
        digests, checksums = (tuple(json.loads(metadata[name])) for name in ("digests", "checksums"))
    except (KeyError, TypeError, ValueError):
        return None
    fits = {len(digests), len(checksums)} == {*map(len, arrays.values())}
    return Chunk(path, digests, tuple(arrays.values()), checksums) if fits else None


class Rows:
    """One row per item of each stored tensor: `rows[[3, 1]]` gives a tuple of tensors. In memory if `in_memory`.

    Rows in memory were checked when their chunk was opened; rows of a mapped chunk are checked on first read.
    """

    def __init__(self, digests: Sequence[str], chunks: Sequence[Chunk], *, in_memory: bool) -> None:
        positions = {digest: (c, r) for c, chunk in enumerate(chunks) for r, digest in enumerate(chunk.digests)}
        self._positions = np.array([positions[digest] for digest in digests], dtype=np.int64).reshape(-1, 2)
        self._chunks = list(chunks)
        self._checked = np.full(len(digests), in_memory)
        self._arrays = self._gathered(np.arange(len(digests))) if in_memory and chunks else None
        if self._arrays is not None:
            self._chunks = []  # release them: they also contain rows of other images

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, indices: Sequence[int] | np.ndarray | Tensor) -> tuple[Tensor, ...]:
        positions = np.asarray(indices, dtype=np.int64)
        if self._arrays is None:
            return _as_tensors(self._gathered(positions))
        return _as_tensors([array.take(positions, axis=0) for array in self._arrays])

    def tensors(self) -> tuple[Tensor, ...]:
        """All rows in memory, without a copy if they already are."""
        return _as_tensors(self.arrays())

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Like `tensors`, without importing torch."""
        return self._arrays if self._arrays is not None else self._gathered(np.arange(len(self)))

    def _gathered(self, chosen: np.ndarray) -> tuple[np.ndarray, ...]:
        positions = self._positions[chosen]
        first = self._chunks[0].arrays if self._chunks else ()
        gathered = [np.empty((len(chosen), *array.shape[1:]), dtype=array.dtype) for array in first]
        for number in np.unique(positions[:, 0]):
            to = np.flatnonzero(positions[:, 0] == number)
            for target, array in zip(gathered, self._chunks[number].arrays, strict=True):
                target[to] = array[positions[to, 1]]
        self._check(chosen, gathered)
        return tuple(gathered)

    def _check(self, chosen: np.ndarray, gathered: Sequence[np.ndarray]) -> None:
        """Refuse damaged rows, and remove their file so that they are computed again."""
        for row in np.flatnonzero(~self._checked[chosen]):
            number, position = self._positions[chosen[row]]
            chunk = self._chunks[number]
            if chunk.checksums is not None and chunk.checksums[position] != _checksum(array[row] for array in gathered):
                chunk.path.unlink(missing_ok=True)
                raise BadInput(
                    f"The cache file {chunk.path} was damaged and has been removed: run the command again "
                    "to recompute its content."
                )
        self._checked[chosen] = True


def _as_tensors(arrays: Sequence[np.ndarray]) -> tuple[Tensor, ...]:
    """The same memory as tensors. Imports torch, which a reader of plain arrays does not need."""
    import torch

    return tuple(torch.from_numpy(array) for array in arrays)


def _mapped(path: Path, start: int, facts: Mapping[str, list[int]]) -> np.ndarray:
    begin, end = facts["data_offsets"]
    dtype, shape = np.dtype(_DTYPES[str(facts["dtype"])]), tuple(facts["shape"])
    if end - begin != dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
        raise ValueError("the size of an array does not fit its shape")
    if end == begin:  # an empty range cannot be mapped
        return np.empty(shape, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=start + begin, shape=shape)


def _checksum(arrays: Iterable[np.ndarray]) -> int:
    total = 0
    for array in arrays:
        total = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, total)
    return total
