"""Studies: specification, plan, execution, store, leaderboard."""

from levelfield.studies.compare import compare, prepare
from levelfield.studies.leaderboard import Leaderboard, gather
from levelfield.studies.plan import plan
from levelfield.studies.reading import read_study
from levelfield.studies.runs import PlannedRun, RunSpec
from levelfield.studies.specification import Study, parse_study

__all__ = [
    "Leaderboard",
    "PlannedRun",
    "RunSpec",
    "Study",
    "compare",
    "gather",
    "parse_study",
    "plan",
    "prepare",
    "read_study",
]
