"""Inputs of an evaluation, validated: finite rows in memory or in a file, one label per row, existing ids."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from levelfield.errors import BadInput

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = ArrayLike | torch.Tensor  # arrays, lists, tensors on any device
_CHUNK = 256
_ROWS = 4096  # of a file, read and converted at a time


@dataclass(frozen=True)
class Inputs:
    """Validated queries and gallery. `codes` are the labels of both sets renamed to 0..C-1.

    `query_ids[i]` is the gallery row that is query i itself, -1 if there is none.
    """

    query: Array
    query_codes: Array
    gallery: Array
    gallery_codes: Array
    query_ids: Array
    classes: Array
    self_search: bool
    bits: int  # per value of the input, before float16 is converted to float32
    device: torch.device  # device of the embeddings, used for the search

    @cached_property
    def positives(self) -> Array:
        """Number of gallery rows of each query's class, without the query itself."""
        sizes = np.bincount(self.gallery_codes, minlength=len(self.classes))
        itself = (self.query_ids >= 0) & (self.gallery_codes[self.query_ids] == self.query_codes)
        return np.asarray(sizes[self.query_codes] - itself)


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


def check_inputs(
    embeddings: Any,
    labels: Any,
    *,
    gallery: Any = None,
    gallery_labels: Any = None,
    query_ids: Any = None,
    dim: int | None = None,
) -> Inputs:
    """Convert arrays for the engine; the caller's arrays are never changed."""
    query = finite_rows(embeddings, "embeddings", dim)
    device = torch.device("cpu")
    if isinstance(embeddings, torch.Tensor):
        bits, device = 8 * embeddings.element_size(), embeddings.device
    else:
        bits = 8 * (embeddings.stored if isinstance(embeddings, FileRows) else np.asarray(embeddings).dtype).itemsize
    names = class_names(labels, "labels", len(query), "embeddings")
    if gallery is None:
        if gallery_labels is not None or query_ids is not None:
            raise BadInput("gallery_labels and query_ids need a gallery: pass gallery=.")
        if len(query) < 2:
            raise BadInput("embeddings has 1 row; a search needs at least 2, a query and another row.")
        classes, codes = np.unique(names, return_inverse=True)
        return Inputs(query, codes, query, codes, np.arange(len(query)), classes, True, bits, device)
    if gallery_labels is None:
        raise BadInput("gallery was given without gallery_labels: pass one label per gallery row.")
    rows = finite_rows(gallery, "gallery", dim)
    if rows.shape[1] != query.shape[1]:
        raise BadInput(
            f"embeddings has {query.shape[1]} columns but gallery has {rows.shape[1]}; both need the same number."
        )
    if len(rows) < 2:
        raise BadInput(f"gallery has {len(rows)} row; it needs at least 2.")
    others = class_names(gallery_labels, "gallery_labels", len(rows), "gallery rows")
    if (names.dtype.kind == "U") != (others.dtype.kind == "U"):
        raise BadInput("labels and gallery_labels must both be numbers or both be text.")
    common = np.promote_types(query.dtype, rows.dtype)
    classes, codes = np.unique(np.concatenate([names, others]), return_inverse=True)
    ids = _ids(query_ids, len(query), len(rows))
    codes, gallery_codes = np.split(codes, [len(query)])
    query, rows = query.astype(common, copy=False), rows.astype(common, copy=False)
    return Inputs(query, codes, rows, gallery_codes, ids, classes, False, bits, device)


def as_array(values: Any, name: str) -> Array:
    """Arrays, lists and tensors of any device as a NumPy array."""
    try:
        if isinstance(values, torch.Tensor):
            short = values.is_floating_point() and values.element_size() < 4  # numpy lacks most of these types
            return (values.detach().float() if short else values.detach()).cpu().numpy()
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise BadInput(f"Cannot convert {name} to an array: {error}") from error


def finite_rows(values: Any, name: str, dim: int | None) -> Array:
    """`[n, d]` float32 or float64, finite. `FileRows` stay in their file: they can do all that the engine asks."""
    rows: Any = values if isinstance(values, FileRows) else as_array(values, name)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub":
        raise BadInput(f"{name} has shape {rows.shape} and type {rows.dtype}; expected numbers of shape (rows, dim).")
    if not rows.size:
        raise BadInput(f"{name} is empty (shape {rows.shape}): there is nothing to evaluate.")
    if dim is not None:
        check_dim(dim, rows.shape[1], name)
        rows = rows.first(dim) if isinstance(rows, FileRows) else rows[:, :dim]
    if rows.dtype not in (np.float32, np.float64):
        exact = 4 if rows.dtype.kind == "f" else 2  # bytes that float32 represents exactly
        rows = rows.astype(np.float64 if rows.dtype.itemsize > exact else np.float32)
    starts = range(0, len(rows), _CHUNK)  # a few rows at a time: a file is not loaded as a whole
    infinite = [np.flatnonzero(~np.isfinite(rows[at : at + _CHUNK]).all(axis=1)) + at for at in starts]
    bad = np.concatenate(infinite)
    if len(bad):
        raise BadInput(f"{name}: {len(bad)} of {len(rows)} rows contain NaN or infinity; the first is row {bad[0]}.")
    checked: Array = rows
    return checked


def check_dim(dim: int, columns: int, name: str) -> None:
    if not isinstance(dim, int | np.integer) or not 1 <= dim <= columns:
        raise BadInput(f"dim={dim}, but {name} has {columns} columns; dim must be 1 to {columns}.")


def class_names(values: Any, name: str, count: int, owner: str) -> Array:
    """One label per row: integers or text."""
    labels = as_array(values, name)
    if labels.ndim != 1:
        raise BadInput(f"{name} has shape {labels.shape}; expected one label per row, shape ({count},).")
    if len(labels) != count:
        raise BadInput(
            f"{count} {owner} but {len(labels)} {name}: each row needs one label; "
            f"the first unmatched row is {min(count, len(labels))}."
        )
    if labels.dtype.kind in "OT":
        labels = labels.astype(object)
        missing = [row for row, label in enumerate(labels) if label is None or label != label]
        if missing:
            raise BadInput(f"{name}: {len(missing)} of {count} rows have no label; the first is row {missing[0]}.")
    # int64 and uint64 together would become float64, which merges large numbers; values beyond int64 become text
    large = labels.dtype.kind == "u" and len(labels) and labels.max() > np.iinfo(np.int64).max
    if labels.dtype.kind == "O" or large:
        return labels.astype(str)
    if labels.dtype.kind == "u":
        return labels.astype(np.int64)
    if labels.dtype.kind not in "ibU":
        raise BadInput(f"{name} has type {labels.dtype}; expected integers or text.")
    return labels


def _ids(values: Any, queries: int, gallery: int) -> Array:
    if values is None:
        return np.full(queries, -1)
    ids = as_array(values, "query_ids")
    if ids.shape != (queries,) or ids.dtype.kind not in "iu":
        raise BadInput(
            f"query_ids has shape {ids.shape} and type {ids.dtype}; expected one integer per query, "
            f"shape ({queries},); -1 means that the query is not in the gallery."
        )
    bad = np.flatnonzero((ids < -1) | (ids >= gallery))
    if len(bad):
        raise BadInput(
            f"query_ids: {ids[bad[0]]} at row {bad[0]} is not a gallery row; valid ids are -1 to {gallery - 1}."
        )
    return ids.astype(np.int64)
