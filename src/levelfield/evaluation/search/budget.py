"""How much memory an evaluation may take, and how many queries can be searched at a time within it."""

from __future__ import annotations

import re

import numpy as np

from levelfield.errors import BadSpecification
from levelfield.evaluation.inputs import Inputs
from levelfield.evaluation.search.products import TILE, in_tiles
from levelfield.evaluation.search.torch_rows import panel_bytes

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_FIXED = 40 * 10**6  # blocks of one thread, and the groups of positives that metrics are computed from
_THREAD = 16 * 10**6  # blocks of one more thread
_PER_QUERY = 120  # bytes: orders, ranges, reach; each metric has 8 more
_CENTRES = 4  # copies of the centres of k-means: themselves, side by side for the product, sums, what moved


def parse_memory(memory: str | int) -> int:
    """Bytes.

    >>> parse_memory("1.5GB"), parse_memory(500)
    (1500000000, 500)
    >>> parse_memory("two")
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: memory='two' is no amount: write it as '2GB', '500MB' or a number of bytes.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(memory))
    if isinstance(memory, bool) or not found or found[2].upper() not in _UNITS:
        raise BadSpecification(f"memory={memory!r} is not a size: use '2GB', '500MB' or a number of bytes.")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def pairs_within(memory: str | int, inputs: Inputs, *, metrics: int, threads: int, way: str) -> int:
    """How many pairs of query and positive may be kept at a time."""
    rows = [inputs.gallery] if inputs.self_search else [inputs.query, inputs.gallery]
    kind = inputs.query.dtype.itemsize
    fixed: int = (
        _FIXED
        + _THREAD * (threads - 1)
        + sum(in_tiles(len(one)) * (one.shape[1] * kind + _PER_QUERY + 8 * metrics) for one in rows)
    )
    if way == "panels" and inputs.device.type == "cpu":
        fixed += panel_bytes(len(inputs.gallery), kind)
    pair = kind + 8
    most = TILE * int(np.bincount(inputs.gallery_codes).max())
    refuse_less(memory, fixed + pair * most, inputs)
    return (parse_memory(memory) - fixed) // pair


def check_copies(memory: str | int, inputs: Inputs, *, clusters: int, threads: int) -> None:
    """Refuse too little memory for a copy of the queries, and for k-means with its centres (0: no k-means)."""
    row = inputs.query.shape[1] * inputs.query.dtype.itemsize
    needed = len(inputs.query) * (row + _PER_QUERY) + _CENTRES * clusters * row
    refuse_less(memory, _FIXED + _THREAD * (threads - 1) + needed, inputs)


def refuse_less(memory: str | int, needed: int, inputs: Inputs) -> None:
    """Say what is the least, if that is more than was allowed."""
    if parse_memory(memory) < needed:
        raise BadSpecification(
            f"memory={memory!r} is too little for {len(inputs.query)} queries and "
            f"{len(inputs.gallery)} gallery rows with {inputs.query.shape[1]} columns: "
            f"the minimum is '{-(-needed // 10**6)}MB'."
        )
