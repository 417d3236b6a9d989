"""levelfield: which embedding method works best on your data, how certain is the result, and what did it cost?

Train and compare: `compare`. Use a finished run: `load`. Measure embeddings: `evaluate`. Parts for your own training
loop are in `objectives`, `miners`, `batching` and `geometry`; `dir(levelfield)` lists everything.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from levelfield.index import lazy

if sys.platform == "win32":  # locks of fcntl, fork server, signals
    raise ImportError(
        "levelfield does not run on Windows: it needs the file locks and processes of Linux. Install it in the Windows "
        "Subsystem for Linux (WSL 2)."
    )
if TYPE_CHECKING:
    from levelfield import batching as batching
    from levelfield import data as data
    from levelfield import embedder as embedder
    from levelfield import errors as errors
    from levelfield import evaluation as evaluation
    from levelfield import geometry as geometry
    from levelfield import library as library
    from levelfield import methods as methods
    from levelfield import miners as miners
    from levelfield import objectives as objectives
    from levelfield import papers as papers
    from levelfield import randomness as randomness
    from levelfield import reports as reports
    from levelfield import shipping as shipping
    from levelfield import studies as studies
    from levelfield import testing as testing
    from levelfield import training as training
    from levelfield import tuning as tuning
    from levelfield.evaluation import evaluate as evaluate
    from levelfield.reports.pipeline import compare as compare
    from levelfield.shipping import load as load
    from levelfield.trust import trusting as trusting

__version__ = "0.1.0"

if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name
    __all__, __getattr__ = lazy(__name__)

    def __dir__() -> list[str]:
        return sorted(__all__)
