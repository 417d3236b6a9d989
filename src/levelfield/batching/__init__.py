"""Batchings: which images form a batch. One file each; a new file here is found automatically.

>>> {"random", "spc", "episodes"} <= set(names())
True
"""

from __future__ import annotations

from typing import Any

from levelfield.batch_layout import Layout
from levelfield.batching._registry import create, describe, maker, names, register
from levelfield.batching.base import Batching, Common, Promise
from levelfield.batching.choice import Choice
from levelfield.batching.fitting import Fit, check_fit, fits, fitting
from levelfield.batching.layout import fit_batch
from levelfield.batching.report import PlanReport, report
from levelfield.registry import import_files

__all__ = [
    "Batching",
    "Choice",
    "Common",
    "Fit",
    "Layout",
    "PlanReport",
    "Promise",
    "check_fit",
    "create",
    "describe",
    "fit_batch",
    "fits",
    "fitting",
    "maker",
    "names",
    "register",
    "report",
]


def _offer_classes() -> None:
    """Import every public file of this package and export its registered batchings."""
    for module in import_files(__name__):
        for name, value in vars(module).items():
            if isinstance(value, type) and value.__module__ == module.__name__ and vars(value).get("name"):
                globals()[name] = value
                __all__.append(name)


def __getattr__(name: str) -> Any:  # tells type checkers that names come from the files
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


_offer_classes()
