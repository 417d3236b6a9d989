"""levelfield: which way of learning an embedding is best here, how sure is that, and what did it cost?

Train and compare: `compare`. Use a finished run: `load`. Measure embeddings: `evaluate`. Parts for one's own loop are
in `objectives`, `miners`, `batching` and `geometry`; `dir(levelfield)` lists everything.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelfield import (
        batching,
        data,
        embedder,
        errors,
        evaluation,
        geometry,
        library,
        methods,
        miners,
        objectives,
        papers,
        randomness,
        reports,
        studies,
        testing,
        training,
        tuning,
    )
    from levelfield.embedder import load
    from levelfield.evaluation import evaluate
    from levelfield.reports.pipeline import compare
    from levelfield.trust import trusting

__version__ = "0.1.0"
_HOMES = {
    "load": "levelfield.embedder",
    "evaluate": "levelfield.evaluation",
    "compare": "levelfield.reports",
    "trusting": "levelfield.trust",
}
__all__ = [
    "__version__",
    "batching",
    "compare",
    "data",
    "embedder",
    "errors",
    "evaluate",
    "evaluation",
    "geometry",
    "library",
    "load",
    "methods",
    "miners",
    "objectives",
    "papers",
    "randomness",
    "reports",
    "studies",
    "testing",
    "training",
    "trusting",
    "tuning",
]


if not TYPE_CHECKING:  # a type checker that saw this function would take any misspelt name

    def __getattr__(name: str) -> Any:
        """Load a public function or room when it is first asked for, so that one room does not import all."""
        if name in _HOMES:
            return getattr(importlib.import_module(_HOMES[name]), name)
        if name in __all__:
            return importlib.import_module(f"levelfield.{name}")
        raise AttributeError(f"module 'levelfield' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
