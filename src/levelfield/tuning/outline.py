"""What a search consists of, before it starts: the methods that are searched, their ranges, and the cost of a trial."""

from __future__ import annotations

from dataclasses import dataclass, replace

from levelfield import methods
from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.evaluation.metrics.registry import ranking
from levelfield.progress import SILENT, Progress
from levelfield.studies import ResolvedStudy, Study, resolve
from levelfield.studies.planning.cost_measured import estimate
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.shared import SharedInputs
from levelfield.studies.specification.choices import MethodSpec
from levelfield.tuning import samplers
from levelfield.tuning.budget import USUAL_TRIALS
from levelfield.tuning.halving import check_bracket
from levelfield.tuning.space import Space, check_search, common_space, space_of
from levelfield.tuning.trials import How, Judge


@dataclass(frozen=True)
class Outline:
    """A search that has not been made. how: with what it leaves to the study and to what is installed."""

    study: Study
    how: How
    spaces: dict[str, Space]
    """The ranges of each method that is searched; empty: as many seeds instead."""
    common: Space
    """The ranges of conditions that are searched once for all methods, before the rest."""

    def trials(self, label: str, seconds: float | None) -> float:
        """The full trials of a method whose trial takes so many seconds; None: unknown."""
        budget = self.how.budget
        still = {method.label for method in self.study.methods if not methods.trains(method.name)}
        if budget.seconds is not None and label in still:
            return USUAL_TRIALS
        if budget.images is not None:
            return max(1.0, budget.images / full_trial(self.study, self.how))
        if budget.seconds is not None:
            return max(1.0, budget.seconds / seconds) if seconds else 1.0
        return float(budget.trials or 1)


@dataclass(frozen=True)
class TrialCost:
    """Runs and expected seconds of one trial of a method."""

    runs: int
    seconds: float


@dataclass(frozen=True)
class Cost:
    """The cost of a search. trials: by the label of the method; features: seconds to compute what is not stored yet."""

    trials: dict[str, TrialCost]
    features: float


def outline(study: Study, how: How) -> Outline:
    """Check what can be checked without the data, and return what would be searched."""
    how = complete(study, how)
    check_search(study)
    check_bracket(study, how, full_trial(study, how))
    spaces = {method.label: space_of(study, method) for method in study.methods if is_searched(method)}
    if not spaces:
        raise BadSpecification("The study has nothing to tune: none of its methods trains or has settings to search.")
    return Outline(study, how, spaces, common_space(study))


def cost(search: Outline, *, options: Options, progress: Progress = SILENT) -> Cost:
    """Time a few steps of every method on this machine; nothing is trained or kept."""
    trials, features, shared = {}, 0.0, SharedInputs()
    stage = progress.stage("timing", len(search.spaces))
    for method in search.study.methods:
        if method.label not in search.spaces:
            continue
        trial = search.how.judge.trial_study(search.study, search.how.metric, method, seed=search.how.seed, steps=None)
        resolved = resolve_trial(trial, method, options, shared, progress)
        runs = [run for run in resolved.runs if run.label == method.label]
        with resolved.in_use():
            one = estimate(trial, runs, options=options, jobs=1)
        count = sum(not run.spec.joined for run in runs)
        trials[method.label] = TrialCost(count, one.seconds - one.feature_seconds)
        features = max(features, one.feature_seconds)
        stage.advance()
    return Cost(trials, features)


def resolve_trial(
    trial: Study, method: MethodSpec, options: Options, shared: SharedInputs, progress: Progress
) -> ResolvedStudy:
    """Resolve a trial; an error names the method."""
    try:
        return resolve(trial, options=options, shared=shared, progress=progress)
    except LevelfieldError as error:
        raise type(error)(f"Trials of '{method.label}' cannot be made: {error}") from error


def complete(study: Study, how: How) -> How:
    """`how` with what it leaves to the study and to what is installed."""
    sampler = how.sampler or samplers.default()
    samplers.check_name(sampler)
    selecting = study.conditions.select  # settings are chosen by the metric that chooses the step
    metric = how.metric or (ranking(study.metrics)[0] if selecting == "budget" else selecting)
    ranking([metric])
    judge = how.judge
    if judge.folds == 1 and study.protocol.folds > 1:  # the protocol's own folds validate
        judge = Judge(folds=study.protocol.folds)
    return replace(how, sampler=sampler, metric=metric, judge=judge)


def is_searched(method: MethodSpec) -> bool:
    """Whether trials of a method make sense: one that joins the runs of others takes the settings of theirs."""
    kind = methods.class_of(method.name, method.settings)
    return kind.tunable and not kind.joins


def full_trial(study: Study, how: How) -> int:
    """Images that a trial sees if it trains to its end."""
    return study.conditions.steps * study.conditions.layout.batch_size * how.judge.folds
