"""Studies: specification, plan, execution, store, leaderboard."""

from levelfield.studies.compare import prepare, run_study
from levelfield.studies.leaderboard.board import Leaderboard, gather
from levelfield.studies.planning.plan import plan
from levelfield.studies.runs.spec import PlannedRun, RunSpec
from levelfield.studies.specification.study import Study, parse_study
from levelfield.studies.specification.yaml_file import read_study

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
