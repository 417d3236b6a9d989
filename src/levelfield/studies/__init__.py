"""Studies: specification, plan, execution, store, leaderboard."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelfield.studies.leaderboard.board import Leaderboard, gather
    from levelfield.studies.pipeline import prepare, run_study
    from levelfield.studies.planning.plan import plan
    from levelfield.studies.runs.spec import PlannedRun, RunSpec
    from levelfield.studies.specification.study import Study, parse_study
    from levelfield.studies.specification.yaml_file import read_study

_HOMES = {
    "Leaderboard": "leaderboard.board",
    "PlannedRun": "runs.spec",
    "RunSpec": "runs.spec",
    "Study": "specification.study",
    "gather": "leaderboard.board",
    "parse_study": "specification.study",
    "plan": "planning.plan",
    "prepare": "pipeline",
    "run_study": "pipeline",
    "read_study": "specification.yaml_file",
}

__all__ = [
    "Leaderboard",
    "PlannedRun",
    "RunSpec",
    "Study",
    "gather",
    "parse_study",
    "plan",
    "prepare",
    "read_study",
    "run_study",
]

if not TYPE_CHECKING:  # with this function in sight a type checker would accept any misspelt name

    def __getattr__(name: str) -> Any:
        """Import a name on first use: reading a study file does not need torch, comparing does."""
        if name in _HOMES:
            return getattr(importlib.import_module(f"levelfield.studies.{_HOMES[name]}"), name)
        raise AttributeError(f"module 'levelfield.studies' has no attribute '{name}'")
