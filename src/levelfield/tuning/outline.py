"""What a search consists of, before it starts: the methods that are searched, their ranges, and the cost of a trial."""

from __future__ import annotations

from dataclasses import dataclass

from levelfield import methods
from levelfield.errors import BadSpecification
from levelfield.progress import SILENT, Progress
from levelfield.studies import Study
from levelfield.studies.planning.cost_measured import estimate
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.shared import SharedInputs
from levelfield.tuning.budget import USUAL_TRIALS
from levelfield.tuning.space import Space, check_search, common_space, space_of
from levelfield.tuning.trials import SearchSettings, is_searched


@dataclass(frozen=True)
class Outline:
    """A search that has not started. settings: with their defaults filled in.

    spaces: the ranges of each method that is searched; empty: as many seeds instead. common: the ranges of conditions
    that are searched once for all methods, before the rest.
    """

    study: Study
    settings: SearchSettings
    spaces: dict[str, Space]
    common: Space

    def trials(self, label: str, seconds: float | None) -> float:
        """The full trials of a method whose trial takes `seconds`; None: unknown."""
        budget = self.settings.budget
        if budget.images is not None:
            return max(1.0, budget.images / self.settings.full_trial(self.study))
        if budget.seconds is None:
            return float(budget.trials or 1)
        trained = {method.label for method in self.study.methods if methods.trains(method.name)}
        if label and label not in trained:
            return USUAL_TRIALS
        return max(1.0, budget.seconds / seconds) if seconds else 1.0


@dataclass(frozen=True)
class TrialCost:
    """Runs and expected seconds of one trial of a method. features: seconds to compute what is not stored yet, once."""

    runs: int
    seconds: float
    features: float


def outline(study: Study, settings: SearchSettings) -> Outline:
    """Check what can be checked without the data, and return what would be searched."""
    settings = settings.completed(study)
    check_search(study)
    spaces = {method.label: space_of(study, method) for method in study.methods if is_searched(method)}
    if not spaces:
        raise BadSpecification("The study has nothing to tune: none of its methods trains or has settings to search.")
    return Outline(study, settings, spaces, common_space(study))


def cost(search: Outline, *, options: Options, progress: Progress = SILENT) -> dict[str, TrialCost]:
    """Time a few steps of every method on this machine, by its label; nothing is trained or kept."""
    trials, shared = {}, SharedInputs()
    stage = progress.stage("timing", len(search.spaces))
    for method in search.study.methods:
        if method.label not in search.spaces:
            continue
        resolved = search.settings.resolve_trial(search.study, method, options, shared, progress)
        runs = [run for run in resolved.runs if run.label == method.label]
        with resolved.in_use():
            one = estimate(runs, options=options, jobs=1)
        count = sum(not run.spec.joined for run in runs)
        trials[method.label] = TrialCost(count, one.seconds - one.feature_seconds, one.feature_seconds)
        stage.advance()
    return trials
