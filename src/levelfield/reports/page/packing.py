"""The page's data as JSON: arrays become base64 text of little-endian numbers, numbers that are not finite null."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from levelfield.reports.page.data import Array, Page
from levelfield.table import Table

_KINDS = {"u1", "u2", "u4", "i4", "f4"}


def smallest(numbers: Array) -> Array:
    """Whole numbers from 0 in the smallest unsigned type that the page reads.

    >>> smallest(np.array([3, 70_000])).dtype, smallest(np.array([3])).dtype
    (dtype('uint32'), dtype('uint16'))
    """
    return numbers.astype(np.uint16 if not numbers.size or numbers.max() < 2**16 else np.uint32)


def to_json(page: Page) -> str:
    """The page as ASCII JSON. Numbers that are not finite become null."""
    return json.dumps(plain(page), allow_nan=False, separators=(",", ":"))


def plain(value: Any) -> Any:
    """A value of the page as JSON can hold it.

    >>> from levelfield.reports.page.data import Cell
    >>> plain(Cell(0.5, float("nan"), None, None)), plain(np.array([1, 256], np.uint16))
    ({'mean': 0.5, 'low': None, 'high': None, 'sd': None}, {'dtype': 'u2', 'shape': [2], 'base64': 'AQAAAQ=='})
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, np.ndarray):
        return _packed(value)
    if isinstance(value, Table):
        return value.as_data()
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    raise TypeError(f"The page cannot hold a {type(value).__name__}.")


def _packed(array: Array) -> dict[str, Any]:
    kind = f"{array.dtype.kind}{array.dtype.itemsize}"
    if kind not in _KINDS:
        raise TypeError(f"The page cannot hold an array of {array.dtype}; it can hold {', '.join(sorted(_KINDS))}.")
    content = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return {"dtype": kind, "shape": list(array.shape), "base64": base64.b64encode(content).decode("ascii")}
