"""Representations of results in a notebook: a short line, and pandas tables."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from levelfield.errors import MissingExtra


def one_line(name: str, facts: Mapping[str, Any]) -> str:
    """Text for `repr`.

    >>> one_line("Model", {"method": "margin", "dim": 128})
    "Model(method='margin', dim=128)"
    """
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in facts.items())})"


def frame(columns: Mapping[str, Any], *, index: str | None = None) -> Any:
    """pandas DataFrame of `columns`, one of which may be the index."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise MissingExtra('to_pandas() needs pandas: pip install "levelfield[notebook]"') from error
    table = pandas.DataFrame(dict(columns))
    return table if index is None else table.set_index(index)
