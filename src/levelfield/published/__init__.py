"""What the papers printed or coded, as data: nothing here is ours."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

__all__ = ["Entry", "hyperparameters"]


class Entry(NamedTuple):
    """Settings that one paper gives to one method on one dataset ("all": no matter which)."""

    method: str
    dataset: str
    paper: str
    source: str
    params: dict[str, Any]


@cache
def hyperparameters() -> tuple[Entry, ...]:
    """Every published setting, in the papers' own words.

    >>> next(entry for entry in hyperparameters() if entry.method == "contrastive").params
    {'margin': 1.0, 'miner': 'distance_weighted', 'distance': 'euclidean'}
    """
    content = json.loads(files(__package__).joinpath("hyperparameters.json").read_text(encoding="utf-8"))
    return tuple(Entry(**entry) for entry in content["entries"])
