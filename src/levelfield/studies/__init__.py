"""Studies: specification, plan, execution, store, leaderboard."""

from typing import TYPE_CHECKING

from levelfield.index import lazy

if TYPE_CHECKING:
    from levelfield.studies.execution.study import execute_study as execute_study
    from levelfield.studies.leaderboard.board import Leaderboard as Leaderboard
    from levelfield.studies.leaderboard.board import gather as gather
    from levelfield.studies.planning.plan import plan as plan
    from levelfield.studies.planning.resolve import ResolvedStudy as ResolvedStudy
    from levelfield.studies.planning.resolve import resolve as resolve
    from levelfield.studies.runs.spec import PlannedRun as PlannedRun
    from levelfield.studies.runs.spec import RunSpec as RunSpec
    from levelfield.studies.specification.study import Study as Study
    from levelfield.studies.specification.study import parse_study as parse_study
    from levelfield.studies.specification.yaml_file import read_study as read_study

if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name
    __all__, __getattr__ = lazy(__name__)
