"""The five papers: their published tables, presets and the toy experiment."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelfield.papers import presets, published, toy

__all__ = ["presets", "published", "toy"]

if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name

    def __getattr__(name: str) -> Any:
        """Import a part on first access: the toy experiment needs torch, the tables do not."""
        if name in __all__:
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
