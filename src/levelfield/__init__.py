"""levelfield: which embedding method works best on your data, how certain is the result, and what did it cost?

Train and compare: `compare`. Use a finished run: `load`. Measure embeddings: `evaluate`. Parts for your own training
loop are in `objectives`, `miners`, `batching` and `geometry`; `dir(levelfield)` lists everything.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":  # locks of fcntl, fork server, signals
    raise ImportError(
        "levelfield does not run on Windows: it needs the file locks and processes of Linux. Install it in the Windows "
        "Subsystem for Linux (WSL 2)."
    )
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
        shipping,
        studies,
        testing,
        training,
        tuning,
    )
    from levelfield.evaluation import evaluate
    from levelfield.reports.pipeline import compare
    from levelfield.shipping import load
    from levelfield.trust import trusting

__version__ = "0.1.0"
_HOMES = {
    "load": "levelfield.shipping",
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
    "shipping",
    "studies",
    "testing",
    "training",
    "trusting",
    "tuning",
]


if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name

    def __getattr__(name: str) -> Any:
        """Import a public function or subpackage on first access."""
        if name in _HOMES:
            return getattr(importlib.import_module(_HOMES[name]), name)
        if name in __all__:
            return importlib.import_module(f"levelfield.{name}")
        raise AttributeError(f"module 'levelfield' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
