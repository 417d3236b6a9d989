"""Rows in a file, read when they are needed: embeddings may be larger than memory."""

from __future__ import annotations

import itertools
import mmap
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from levelfield.errors import BadInput

Array = np.ndarray[Any, np.dtype[Any]]
_BYTES = 2**22  # read and converted at a time
_PART = 4096  # rows, to find the largest number


class FileRows:
    """A matrix in a file that behaves like an array of its rows: `rows[10:20]` and `rows[positions]` are new arrays.

    Their dtype is `dtype`, whatever the file has (`stored`). Rows are read, not mapped: the system may keep much more
    of a mapped file in memory than was asked for. Another process opens the file again: only its path is pickled.
    """

    ndim = 2

    def __init__(self, path: str, stored: np.dtype[Any], begin: int, shape: tuple[int, int], stride: int) -> None:
        self.path, self.stored, self.begin, self.shape, self.stride = path, stored, begin, shape, stride
        self.dtype = stored
        self._file: int | None = None  # descriptor, opened by the first read

    @classmethod
    def of(cls, values: Any) -> FileRows | None:
        """The file behind a `numpy.memmap` of two dimensions whose rows are contiguous; None if there is none.

        A copy-on-write mapping may differ from its file, so it stays an array, as does one whose file was replaced.
        """
        if not isinstance(values, np.memmap) or values.ndim != 2 or not values.size or values.mode == "c":
            return None
        if values.filename is None or values.dtype.kind not in "fiub":
            return None
        if values.strides[1] != values.itemsize or values.strides[0] < values.itemsize * values.shape[1]:
            return None
        mapping: Any = values._mmap  # type: ignore[attr-defined]  # numpy keeps it without a public name
        start = values.offset - values.offset % mmap.ALLOCATIONGRANULARITY
        inside = values.__array_interface__["data"][0] - np.frombuffer(mapping, np.uint8).__array_interface__["data"][0]
        rows = cls(os.fspath(values.filename), values.dtype, start + inside, values.shape, values.strides[0])
        try:
            same = rows[np.array([0, len(rows) - 1])].tobytes() == values[[0, -1]].tobytes()
        except BadInput:
            return None
        return rows if same else None

    def first(self, dim: int) -> FileRows:
        """Only the first columns."""
        return self._copy((self.shape[0], dim), self.dtype)

    def astype(self, kind: Any, copy: bool = False) -> FileRows:
        """The same rows, converted to another dtype when they are read."""
        return self._copy(self.shape, np.dtype(kind))

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, positions: slice | Array) -> Array:
        if isinstance(positions, slice):
            at: range | Array = range(*positions.indices(len(self)))
        else:
            at = np.flatnonzero(positions) if positions.dtype == bool else positions
        result = np.empty((len(at), self.shape[1]), self.dtype)
        lines = max(_BYTES // self.stride, 1)
        for low in range(0, len(at), lines):
            part = at[low : low + lines]
            if isinstance(part, range) and part.step == 1:
                wide = self.shape[1] * self.stored.itemsize  # the last row may end before its stride
                raw = self._read(np.empty((len(part) - 1) * self.stride + wide, np.uint8), part.start)
                rows = np.ndarray((len(part), self.shape[1]), self.stored, raw, 0, (self.stride, self.stored.itemsize))
            else:
                rows = self._in_runs(np.asarray(part))
            result[low : low + lines] = rows
        return result

    def max(self) -> Any:
        """The largest number."""
        return max(part.max() for part in self._parts())

    def min(self) -> Any:
        """The smallest number."""
        return min(part.min() for part in self._parts())

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None}

    def _parts(self) -> Iterator[Array]:
        return (self[begin : begin + _PART] for begin in range(0, len(self), _PART))

    def _in_runs(self, rows: Array) -> Array:
        """Read rows that follow each other at once, unless there is something between them."""
        result = np.empty((len(rows), self.shape[1]), self.stored)
        width = self.shape[1] * self.stored.itemsize
        whole, content = self.stride == width, result.view(np.uint8).reshape(-1)
        begins = np.flatnonzero(np.diff(rows, prepend=-2) != 1) if whole else np.arange(len(rows))
        for begin, end in itertools.pairwise([*begins.tolist(), len(rows)]):
            self._read(content[begin * width : end * width], int(rows[begin]))
        return result

    def _read(self, target: Array, row: int) -> Array:
        """Fill the bytes of `target`, from the beginning of a row on."""
        if self._file is None:
            try:
                self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                raise BadInput(f"Cannot open {self.path}: {error.strerror}. Every worker needs the file.") from error
        offset, left = self.begin + row * self.stride, memoryview(target)  # type: ignore[arg-type]  # of Python 3.11
        while len(left):
            count = os.preadv(self._file, [left], offset)
            if count == 0:
                raise BadInput(f"{self.path} ends in row {row} or later: it was shortened while it was read.")
            left, offset = left[count:], offset + count
        return target

    def _copy(self, shape: tuple[int, int], kind: np.dtype[Any]) -> FileRows:
        copy = FileRows(self.path, self.stored, self.begin, shape, self.stride)
        copy.dtype = kind
        return copy
