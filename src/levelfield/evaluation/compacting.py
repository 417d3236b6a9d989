"""Compact embeddings: the same rows stored in fewer bytes, and the score of each form beside that of float32."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from levelfield.errors import BadInput
from levelfield.evaluation.engine import evaluate
from levelfield.evaluation.inputs import Array, Arrays, check_dim, finite_rows
from levelfield.evaluation.result import Evaluation, paired_differences
from levelfield.evaluation.search.distances import Distance, unit_rows
from levelfield.evaluation.statistics.intervals import Interval
from levelfield.progress import SILENT, Progress

MIN_DIM = 16  # the smallest k that is tried by default
_BLOCK = 4096  # rows converted at a time
_HIGHEST = float(np.finfo(np.float16).max)
_RANK = 1e-10  # a variance below this share of the largest one is rounding: rows of float32 have about 1e-14


@dataclass(frozen=True)
class Compacted:
    """Embeddings in a compact form.

    name: such as "int8" or "first 64".
    distance: compares the `rows`; "hamming" for bits, otherwise that of the caller.
    bits: per number.
    encode: from rows in float64, of length 1 under cosine. decode: None if stored rows can be compared.
    """

    name: str
    dim: int
    bits: int
    distance: Distance
    source: Array = field(repr=False)
    unit: bool = field(repr=False)
    encode: Callable[[Array], Array] = field(repr=False, compare=False)
    decode: Callable[[Array], Array] | None = field(default=None, repr=False, compare=False)

    @property
    def bytes(self) -> int:
        """Size of one stored embedding."""
        return (self.dim * self.bits + 7) // 8

    @property
    def rows(self) -> Array:
        """(n, dim): the rows to compare, made anew at each access so that only one form is in memory."""
        return self.of(self.source)

    def stored(self, rows: Arrays) -> Array:
        """(n, ...): what one would write to disk for other embeddings of the same network, `bytes` for each row."""
        checked = finite_rows(rows, "rows", None)
        columns, expected = checked.shape[1], self.source.shape[1]
        if columns != expected:
            raise BadInput(f"rows has {columns} columns; expected {expected}, as in the test rows.")
        return _in_blocks(lambda part: self.encode(_in_float64(part, self.unit)), checked)

    def of(self, rows: Arrays) -> Array:
        """(n, dim): the rows to compare of other embeddings, such as a gallery."""
        stored = self.stored(rows)
        return stored if self.decode is None else _in_blocks(self.decode, stored)


def compact(
    train_rows: Arrays | None, test_rows: Arrays, *, dims: Sequence[int] | None = None, distance: Distance = "cosine"
) -> dict[str, Compacted]:
    """Compact forms of embeddings by name, float32 first. Under cosine every row is first divided by its length.

    - `float32`, `float16`: each number in 4 or 2 bytes.
    - `int8`: each number divided by (largest absolute value of its dimension in the training rows) / 127, rounded,
      limited to -127..127.
    - `bits`: 1 if a number is above the mean of its dimension in the training rows, otherwise 0; 8 numbers in a byte.
      Compared by the number of different bits, which ranks like the cosine of rows of 1 and -1.
    - `first k`: the first k numbers in float32.
    - `whitened k`: the first k principal components of the training rows, each divided by its standard deviation
      there, in float32.

    Nothing is fitted on the test rows. Memory: one form at a time, and O(dim * dim) to fit the components.

    Args:
        train_rows: (m, dim) embeddings of training classes. None: only forms that need none. With fewer than k
            independent rows there is no `whitened k`.
        test_rows: (n, dim).
        dims: each k of `first k` and `whitened k`. None: dim/2, dim/4, ... down to 16, and dim for `whitened`.
        distance: compares rows, except bits.

    >>> train, test = np.array([[3.0, 4.0], [4.0, -3.0], [-1.0, 0.0]]), np.array([[0.6, 0.8], [-0.6, 0.8]])
    >>> forms = compact(train, test)
    >>> {name: form.bytes for name, form in forms.items()}
    {'float32': 8, 'float16': 4, 'int8': 2, 'bits': 1, 'whitened 2': 8}
    >>> forms["bits"].rows
    array([[ 1,  1],
           [-1,  1]], dtype=int8)
    """
    if distance == "hamming":
        raise BadInput("distance='hamming' compares bits only; bits are one of the compact forms of other distances.")
    test = finite_rows(test_rows, "test_rows", None)
    dim, unit = test.shape[1], distance == "cosine"
    for k in dims or ():
        check_dim(k, dim, "test_rows")
    fitted = None
    if train_rows is not None:
        train = finite_rows(train_rows, "train_rows", None)
        if train.shape[1] != dim:
            raise BadInput(
                f"train_rows has {train.shape[1]} columns but test_rows has {dim}; both need the same number."
            )
        fitted = _Fitted.of(train, unit)
    forms: dict[str, Compacted] = {}
    for name in form_names(dim, dims):
        kind, _, count = name.partition(" ")
        k = int(count or dim)
        if kind in ("float32", "float16", "first"):
            encode = _to_float16 if kind == "float16" else partial(_first, k=k)
            forms[name] = Compacted(name, k, 16 if kind == "float16" else 32, distance, test, unit, encode)
        elif fitted is None:
            continue
        elif kind == "int8":
            forms[name] = Compacted(name, dim, 8, distance, test, unit, fitted.to_int8, fitted.from_int8)
        elif kind == "bits":
            forms[name] = Compacted(name, dim, 1, "hamming", test, unit, fitted.to_bits, fitted.from_bits)
        elif k <= len(fitted.weight):
            forms[name] = Compacted(name, k, 32, distance, test, unit, partial(fitted.whitened, k=k))
    return forms


def form_names(dim: int, dims: Sequence[int] | None = None) -> list[str]:
    """The names of all compact forms of embeddings with `dim` numbers. dims: as in `compact`.

    >>> form_names(32), form_names(32, [8])[4:]
    (['float32', 'float16', 'int8', 'bits', 'first 16', 'whitened 32', 'whitened 16'], ['first 8', 'whitened 8'])
    """
    smaller = [dim >> step for step in range(1, dim.bit_length()) if dim >> step >= MIN_DIM]
    first = smaller if dims is None else list(dict.fromkeys(dims))
    white = [dim, *smaller] if dims is None else first
    return ["float32", "float16", "int8", "bits", *(f"first {k}" for k in first), *(f"whitened {k}" for k in white)]


@dataclass(frozen=True)
class CompactScore:
    """A compact form, its evaluation, and its paired differences from float32 (none for float32 itself)."""

    form: Compacted
    result: Evaluation
    differences: dict[str, Interval]


def compact_scores(
    train: Array | None,
    arrays: Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    dims: Sequence[int] | None = None,
    distance: Distance = "cosine",
    progress: Progress = SILENT,
) -> Iterator[CompactScore]:
    """Evaluate every compact form, float32 first. Only one form's rows are in memory at a time.

    arrays, settings: arguments of `evaluate`; its metrics must be retrieval metrics. train, dims, distance: as in
    `compact`. progress: gets a stage for each form.
    """
    gallery, whole = arrays.get("gallery"), None
    for form in compact(train, arrays["embeddings"], dims=dims, distance=distance).values():
        compacted = {**arrays, "embeddings": form.rows}
        if gallery is not None:
            compacted["gallery"] = form.of(gallery)
        result = evaluate(**{**compacted, **settings}, distance=form.distance, progress=progress)
        result = replace(result, search=None)  # which would keep the rows of every form
        level = settings.get("ci") or 0.95
        yield CompactScore(form, result, {} if whole is None else paired_differences(result, whole, level=level))
        whole = whole or result


def undetermined(determined: Collection[str], dim: int, dims: Sequence[int] | None = None) -> str:
    """A sentence on whitened forms that are not among the determined ones; empty if there are none."""
    lacking = [name for name in form_names(dim, dims) if name.startswith("whitened ") and name not in determined]
    return f"{', '.join(lacking)}: the training embeddings vary in fewer dimensions." if lacking else ""


@dataclass(frozen=True)
class _Fitted:
    """Facts of the training rows: mean and largest absolute value of each dimension; whitening (rank, dim)."""

    mean: Array
    scale: Array
    weight: Array

    @classmethod
    def of(cls, train: Array, unit: bool) -> _Fitted:
        from scipy.linalg import eigh

        count, dim = train.shape
        total, largest, products = np.zeros(dim), np.zeros(dim), np.zeros((dim, dim))
        starts = range(0, count, _BLOCK)
        for start in starts:
            part = _in_float64(train[start : start + _BLOCK], unit)
            total += part.sum(axis=0)
            np.maximum(largest, np.abs(part).max(axis=0), out=largest)
        mean = total / count
        with threadpool_limits(1, user_api="blas"):  # so that the number of threads does not change a bit
            for start in starts:
                part = _in_float64(train[start : start + _BLOCK], unit) - mean
                products += part.T @ part
            values, vectors = eigh(products / max(count - 1, 1), overwrite_a=True, check_finite=False)
        values, vectors = values[::-1], vectors[:, ::-1].T
        rank = int((values > _RANK * values[0]).sum()) if values[0] > 0 else 0
        rank = min(rank, count - 1)
        signs = np.sign(np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None], axis=1))
        return cls(mean, largest, (vectors * signs)[:rank] / np.sqrt(values[:rank, None]))

    def to_int8(self, part: Array) -> Array:
        steps: Array = part * (127 / np.where(self.scale > 0, self.scale, np.inf))
        return np.rint(steps).clip(-127, 127).astype(np.int8)

    def from_int8(self, codes: Array) -> Array:
        return (codes * (self.scale / 127)).astype(np.float32)

    def to_bits(self, part: Array) -> Array:
        return np.packbits(part > self.mean, axis=1)

    def from_bits(self, codes: Array) -> Array:
        ones: Array = np.unpackbits(codes, axis=1, count=len(self.mean)).astype(np.int8)
        return 2 * ones - 1

    def whitened(self, part: Array, k: int) -> Array:
        with threadpool_limits(1, user_api="blas"):
            return ((part - self.mean) @ self.weight[:k].T).astype(np.float32)


def _in_blocks(change: Callable[[Array], Array], rows: Array) -> Array:
    """Change a few rows at a time: only the result has the size of all rows."""
    first = change(rows[:_BLOCK])
    result = np.empty((len(rows), *first.shape[1:]), first.dtype)
    result[:_BLOCK] = first
    for start in range(_BLOCK, len(rows), _BLOCK):
        result[start : start + _BLOCK] = change(rows[start : start + _BLOCK])
    return result


def _in_float64(part: Array, unit: bool) -> Array:
    part = part.astype(np.float64)
    return unit_rows(part) if unit else part


def _to_float16(part: Array) -> Array:
    return part.clip(-_HIGHEST, _HIGHEST).astype(np.float16)


def _first(part: Array, k: int) -> Array:
    return part[:, :k].astype(np.float32)
