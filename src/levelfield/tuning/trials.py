"""Trials: one setting of one method, judged by validation classes; as runs of a study, and as a log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from levelfield import methods
from levelfield.data import Catalog, Fold
from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.evaluation.metrics.registry import ranking
from levelfield.files.writing import write_json
from levelfield.progress import Progress
from levelfield.studies import PlannedRun, ResolvedStudy, Study, resolve
from levelfield.studies.execution.events import RunsProgress
from levelfield.studies.planning.plan import needed_labels
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.shared import SharedInputs
from levelfield.studies.specification.choices import MethodSpec
from levelfield.tuning import samplers
from levelfield.tuning.budget import Budget


@dataclass(frozen=True)
class Trial:
    """One setting of one method and its score. value: None if the trial failed; then `error` says why."""

    method: str
    number: int
    settings: dict[str, Any] = field(default_factory=dict)
    value: float | None = None
    seconds: float = 0.0
    images: int = 0
    error: str = ""


@dataclass(frozen=True)
class Judge:
    """The classes that judge: a share of the training classes, or all of them in turn, in class-disjoint folds.

    share_is_explicit: whether the user chose the share, so that it must not be ignored.
    """

    validation: float = 0.25
    folds: int = 1
    share_is_explicit: bool = False

    @property
    def text(self) -> str:
        if self.folds > 1:
            return f"{self.folds} class-disjoint folds of the training classes"
        return f"validation classes ({self.validation:.0%} of the training classes)"

    def describe(self, catalog: Catalog, fold: Fold) -> str:
        """The judging classes in numbers: data may define its validation part, and a share has at least two classes.

        fold: the division of the data in a trial.
        """
        if self.folds > 1:
            return self.text
        what = "images" if fold.closed else "classes"
        judging, training = (
            len(part) if fold.closed else len(np.unique(catalog.labels[part])) for part in (fold.validation, fold.train)
        )
        if catalog.parts is not None and (catalog.parts == "validation").any():
            if self.share_is_explicit:
                raise BadSpecification(
                    f"--validation {self.validation:g} would be ignored: '{catalog.name}' defines {judging:,} "
                    f"validation {what}, which judge. Leave it out."
                )
            return f"the {judging:,} validation {what} that '{catalog.name}' defines"
        share = judging / (judging + training)
        return f"{judging:,} validation {what} ({share:.0%} of the training {what})"


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search. None of them can depend on test classes.

    metric: by default the one that chooses the step, else the first of the study that can rank methods.
    sampler: by default tpe if Optuna is installed, otherwise halton.
    judged_by: the judging classes in numbers; the search fills it in.
    """

    budget: Budget = field(default_factory=lambda: Budget(trials=30))
    judge: Judge = field(default_factory=Judge)
    metric: str = ""
    sampler: str = ""
    seed: int = 0
    judged_by: str = ""

    @property
    def plain(self) -> dict[str, Any]:
        """As plain data, for logs."""
        return {
            "budget": self.budget.text,
            "metric": self.metric,
            "judged_by": self.judged_by or self.judge.text,
            "sampler": self.sampler,
            "seed": self.seed,
        }

    def completed(self, study: Study) -> SearchSettings:
        """With the defaults that follow from the study and from the installed packages."""
        sampler = self.sampler or samplers.default()
        samplers.check_name(sampler)
        selecting = study.conditions.select
        metric = self.metric or (ranking(study.metrics)[0] if selecting == "budget" else selecting)
        ranking([metric])
        # the protocol's own folds validate, unless the user asked for others
        judge = Judge(folds=study.protocol.folds) if self.judge.folds == 1 < study.protocol.folds else self.judge
        return replace(self, sampler=sampler, metric=metric, judge=judge)

    def full_trial(self, study: Study) -> int:
        """Images that a trial sees if it trains to its end."""
        return study.conditions.steps * study.conditions.layout.batch_size * self.judge.folds

    def trial_study(self, study: Study, method: MethodSpec, *, seed: int | None = None) -> Study:
        """The study that is one trial: this method and those that it needs, judged by validation classes.

        A trial keeps its best step, however small the gain (`min_delta`): otherwise most trials would end with the
        score of the start, and a search could not tell them apart. The comparison requires the gain.
        """
        others = needed_labels(study.methods, method.label) - {method.label}
        folds = self.judge.folds
        protocol: dict[str, Any] = {
            "name": "choosing",
            "of": study.protocol.model_dump(mode="json"),
            "validation": self.judge.validation if folds == 1 else 1 / folds,
        }
        protocol |= {"parts": folds, "part": 0} if folds > 1 else {}
        conditions = study.conditions.model_dump(mode="json") | {"min_delta": 0.0}
        return Study.model_validate(
            {
                "name": study.name,
                "data": study.data.model_dump(mode="json"),
                "protocol": protocol,
                "conditions": conditions,
                "methods": [*(m for m in study.methods if m.label in others), method],
                "seeds": [self.seed if seed is None else seed],
                "metrics": [self.metric],
                "vary": {"protocol.part": list(range(folds))} if folds > 1 else {},
            }
        )

    def resolve_trial(
        self, study: Study, method: MethodSpec, options: Options, shared: SharedInputs, progress: Progress
    ) -> ResolvedStudy:
        """Resolve a trial with the study's own settings; an error names the method."""
        try:
            return resolve(self.trial_study(study, method), options=options, shared=shared, progress=progress)
        except LevelfieldError as error:
            raise type(error)(f"Trials of '{method.label}' cannot be made: {error}") from error


def is_searched(method: MethodSpec) -> bool:
    """Whether trials of a method make sense: one that joins the runs of others takes the settings of theirs."""
    kind = methods.class_of(method.name, method.settings)
    return kind.tunable and not kind.joins


@dataclass(frozen=True)
class Attempt:
    """The runs of one method in a trial. trial: as proposed; with its error if no run can be made."""

    trial: Trial
    runs: tuple[PlannedRun, ...] = ()

    def score(self, folder: Path, metric: str, failed: Mapping[str, str], charged: set[tuple[str, str]]) -> Trial:
        """Return the trial with its score (the mean over folds), time and images, read from its finished runs.

        charged: (method, run) of the needed runs whose cost is in an earlier trial: a teacher trains once for all.
        """
        if not self.runs:
            return self.trial
        own = [run for run in self.runs if run.label == self.runs[-1].label]
        counted = [run for run in own if run.spec.member is None] or own  # without members that another run joins
        results = [read_result(run.folder(folder)) for run in counted]
        lacking = next((run for run, one in zip(counted, results, strict=True) if one is None), None)
        if lacking is not None:
            return replace(self.trial, error=failed.get(lacking.title, "the run did not finish"))
        finished = [one for one in results if one is not None]
        value = math.fsum(one.values[metric] for one in finished) / len(finished)
        others = [run for run in self.runs if run.label != self.runs[-1].label]
        parts = {need.name for run in others if run.spec.joined for need in run.spec.needs}
        for run in (run for run in others if run.spec.folder_name not in parts):  # such as a teacher
            key, result = (self.trial.method, run.spec.folder_name), read_result(run.folder(folder))
            if result is not None and key not in charged:
                charged.add(key)
                finished.append(result)
        return replace(
            self.trial,
            value=value if math.isfinite(value) else None,
            seconds=sum(one.seconds for one in finished),
            images=sum(int(one.summary.get("images", 0)) for one in finished),
            error="" if math.isfinite(value) else f"{metric} is {value}",
        )


def best_trial(trials: Sequence[Trial]) -> Trial | None:
    """The best trial; the earlier one on a tie; None if there is none."""
    scored = [trial for trial in trials if trial.value is not None]
    return max(scored, key=lambda trial: trial.value or 0.0, default=None)


def write_log(path: Path, trials: Sequence[Trial], settings: SearchSettings) -> None:
    """All trials as JSON, with what they have in common."""
    write_json(path, {**settings.plain, "trials": [asdict(trial) for trial in trials]})


class TuningProgress(RunsProgress):
    """Progress of a search. This one is silent; the command line draws bars and the best so far."""

    def on_methods(self, labels: Sequence[str]) -> None:
        """The methods that are searched, before the first trial."""

    def on_round(self, titles: Sequence[str]) -> None:
        """A round begins: `Event.run` indexes `titles` until the next round."""

    def on_trial(self, trial: Trial, *, spent: float) -> None:
        """A trial is over. spent: the share of its method's budget, from 0 to 1."""


SILENT_TUNING = TuningProgress()
