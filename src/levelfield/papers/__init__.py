"""The five papers: their published tables, presets and the toy experiment."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelfield.papers import presets, published, toy

__all__ = ["presets", "published", "toy"]

if not TYPE_CHECKING:  # a type checker that saw this function would take any misspelt name

    def __getattr__(name: str) -> Any:
        """Import a part when it is first asked for: the toy experiment trains, the tables are data."""
        if name in __all__:
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
