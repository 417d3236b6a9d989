"""Memory limit of an evaluation, and the number of queries that fit into it at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from levelfield.errors import BadSpecification
from levelfield.evaluation.inputs import Inputs
from levelfield.evaluation.search.products import TILE, in_tiles
from levelfield.evaluation.search.torch_rows import panel_bytes

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
FIXED = 40 * 10**6  # bytes: blocks of one thread, and tie groups
THREAD = 16 * 10**6  # bytes: blocks of each further thread
_PER_QUERY = 120  # bytes: orders, ranges, reach; plus 8 per metric
_CENTRES = 4  # copies of the k-means centres: original, tiled for the product, sums, moved


def parse_memory(memory: str | int) -> int:
    """Parse a memory size into bytes.

    >>> parse_memory("1.5GB"), parse_memory(500)
    (1500000000, 500)
    >>> parse_memory("two")
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: memory='two' is not a size: use '2GB', '500MB' or a number of bytes.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(memory))
    if isinstance(memory, bool) or not found or found[2].upper() not in _UNITS:
        raise BadSpecification(f"memory={memory!r} is not a size: use '2GB', '500MB' or a number of bytes.")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def pairs_within(memory: str | int, inputs: Inputs, *, metrics: int, threads: int, way: str) -> int:
    """Number of (query, positive) pairs that fit into memory at a time."""
    fixed, pair = _fixed(inputs, metrics, threads, way), inputs.query.dtype.itemsize + 8
    refuse_less(memory, _least(inputs, metrics, threads, way), inputs)
    return (parse_memory(memory) - fixed) // pair


def fits(memory: str | int, inputs: Inputs, *, metrics: int, threads: int, way: str) -> bool:
    """Whether the limit allows a search with a copy of all rows in memory."""
    return parse_memory(memory) >= _least(inputs, metrics, threads, way)


def _least(inputs: Inputs, metrics: int, threads: int, way: str) -> int:
    most = TILE * int(np.bincount(inputs.gallery_codes).max())
    return _fixed(inputs, metrics, threads, way) + (inputs.query.dtype.itemsize + 8) * most


def _fixed(inputs: Inputs, metrics: int, threads: int, way: str) -> int:
    """Bytes of the copy of the rows and of the work on them."""
    rows = [inputs.gallery] if inputs.self_search else [inputs.query, inputs.gallery]
    kind = inputs.query.dtype.itemsize
    fixed: int = (
        FIXED
        + THREAD * (threads - 1)
        + sum(in_tiles(len(one)) * (one.shape[1] * kind + _PER_QUERY + 8 * metrics) for one in rows)
    )
    if way == "panels" and inputs.device.type == "cpu":
        fixed += panel_bytes(len(inputs.gallery), kind)
    return fixed


def check_copies(memory: str | int, inputs: Inputs, metrics: Sequence[str], *, clusters: int, threads: int) -> None:
    """Refuse a limit too small for a copy of the queries and the k-means centres (0: no k-means)."""
    row = inputs.query.shape[1] * inputs.query.dtype.itemsize
    needed = len(inputs.query) * (row + _PER_QUERY) + _CENTRES * clusters * row
    way_out = f" Retrieval metrics of a .npy file need no copy: leave out {', '.join(metrics)}."
    refuse_less(memory, FIXED + THREAD * (threads - 1) + needed, inputs, way_out)


def refuse_less(memory: str | int, needed: int, inputs: Inputs, way_out: str = "") -> None:
    """Raise an error with the minimum if it exceeds the limit."""
    if parse_memory(memory) < needed:
        raise BadSpecification(
            f"memory={memory!r} is too little for {len(inputs.query)} queries and "
            f"{len(inputs.gallery)} gallery rows with {inputs.query.shape[1]} columns: "
            f"the minimum is '{-(-needed // 10**6)}MB'.{way_out}"
        )
