"""Rows in a file, read when they are needed: embeddings may be larger than memory."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from levelfield.errors import BadInput

Array = np.ndarray[Any, np.dtype[Any]]
_ROWS = 4096  # read and converted at a time


@dataclass(frozen=True)
class FileRows:
    """A matrix in a file that behaves like an array of its rows: `rows[10:20]` and `rows[positions]` are new arrays.

    Their dtype is `dtype`, whatever the file has (`stored`). Rows are read, not mapped: the system may keep much more
    of a mapped file in memory than was asked for. begin: bytes before the first row; columns: of the file.
    """

    path: str
    stored: np.dtype[Any]
    begin: int
    columns: int
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    ndim = 2

    @classmethod
    def of(cls, values: Any) -> FileRows | None:
        """The file behind a `numpy.memmap` of two dimensions, or behind some consecutive rows of it; else None.

        A copy-on-write mapping may differ from its file, so it stays an array.
        """
        if not isinstance(values, np.memmap) or values.ndim != 2 or not values.size or values.mode == "c":
            return None
        if values.filename is None or values.dtype.kind not in "fiub" or not values.flags.c_contiguous:
            return None
        whole = values
        while isinstance(whole.base, np.memmap):
            whole = whole.base
        begin = whole.offset + values.ctypes.data - whole.ctypes.data
        return cls(os.fspath(values.filename), values.dtype, begin, values.shape[1], values.shape, values.dtype)

    def first(self, dim: int) -> FileRows:
        """Only the first columns."""
        return replace(self, shape=(len(self), dim))

    def astype(self, kind: Any, copy: bool = False) -> FileRows:
        """The same rows, converted to another dtype when they are read."""
        return replace(self, dtype=np.dtype(kind))

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, positions: slice | Array) -> Array:
        if isinstance(positions, slice):
            at = np.arange(*positions.indices(len(self)))
        else:
            at = np.flatnonzero(positions) if positions.dtype == bool else positions
        result = np.empty((len(at), self.shape[1]), self.dtype)
        for low in range(0, len(at), _ROWS):
            result[low : low + _ROWS] = self._read(at[low : low + _ROWS])[:, : self.shape[1]]
        return result

    def _read(self, at: Array) -> Array:
        """Rows as they are stored; those that follow each other are read at once."""
        rows = np.empty((len(at), self.columns), self.stored)
        begins = np.flatnonzero(np.diff(at, prepend=-2) != 1).tolist()
        try:
            with open(self.path, "rb") as file:
                for begin, end in zip(begins, [*begins[1:], len(at)], strict=True):
                    file.seek(self.begin + int(at[begin]) * self.columns * self.stored.itemsize)
                    part = rows[begin:end]
                    if file.readinto(part.data) < part.nbytes:
                        raise BadInput(f"{self.path} ends in row {at[begin]} or later: it was shortened meanwhile.")
        except OSError as error:
            raise BadInput(f"Cannot open {self.path}: {error.strerror}. Every worker needs the file.") from error
        return rows
