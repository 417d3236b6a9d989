"""Values that hold inside of a `with` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

_T = TypeVar("_T")


@contextmanager
def holding(variable: ContextVar[_T], value: _T) -> Iterator[None]:
    """Context in which `variable` has `value`; afterwards it has the one from before."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
