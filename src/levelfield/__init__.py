"""levelfield: which way of learning an embedding is best here, how sure is that, and what did it cost?"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"
_HOMES = {"load": "levelfield.embedder", "evaluate": "levelfield.evaluation", "compare": "levelfield.studies"}
_HOMES |= {"trusting": "levelfield.trust"}
__all__ = ["__version__", "compare", "evaluate", "load", "trusting"]


def __getattr__(name: str) -> Any:
    """Load a public function from its room when it is first asked for, so that one room does not import all."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'levelfield' has no attribute '{name}'")
