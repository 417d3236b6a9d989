"""Trials: one setting of one method, judged by validation classes; as runs of a study, and as a log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from levelfield import methods
from levelfield.data import Catalog
from levelfield.data.protocols import Fold
from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.files.writing import write_json
from levelfield.studies import PlannedRun, Study, plan
from levelfield.studies.execution.events import RunsProgress
from levelfield.studies.planning.plan import needed_labels
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.specification.choices import MethodSpec
from levelfield.tuning.budget import Budget
from levelfield.tuning.space import applied


@dataclass(frozen=True)
class Trial:
    """One setting of one method and what came of it. value: None if the trial failed; then `error` says why."""

    method: str
    number: int
    settings: dict[str, Any] = field(default_factory=dict)
    value: float | None = None
    seconds: float = 0.0
    images: int = 0
    pruned: bool = False
    error: str = ""

    @property
    def counts(self) -> bool:
        """Whether it can be chosen: it trained to its end and has a figure."""
        return self.value is not None and not self.pruned


@dataclass(frozen=True)
class Judge:
    """Who judges: a share of the training classes, or all of them in turn, in class-disjoint folds."""

    validation: float = 0.25
    folds: int = 1
    asked: bool = False
    """Whether the user asked for this share, so that it must not be ignored."""

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
        judging, training = (_count(catalog, fold.closed, part) for part in (fold.validation, fold.train))
        if catalog.parts is not None and (catalog.parts == "validation").any():
            if self.asked:
                raise BadSpecification(
                    f"--validation {self.validation:g} would be ignored: '{catalog.name}' defines {judging:,} "
                    f"validation {what}, which judge. Leave it out."
                )
            return f"the {judging:,} validation {what} that '{catalog.name}' defines"
        share = judging / (judging + training)
        return f"{judging:,} validation {what} ({share:.0%} of the training {what})"

    def trial_study(self, study: Study, metric: str, method: MethodSpec, *, seed: int, steps: int | None) -> Study:
        """The study that is one trial: this method (with those that it needs), judged by validation classes.

        A trial keeps its best step, however small the gain (`min_delta`): otherwise most trials would end with the
        score of the start, and a search could not tell them apart. The comparison requires the gain.
        """
        others = needed_labels(study.methods, method.label) - {method.label}
        protocol: dict[str, Any] = {
            "name": "choosing",
            "of": study.protocol.model_dump(mode="json"),
            "validation": self.validation if self.folds == 1 else 1 / self.folds,
        }
        vary: dict[str, list[Any]] = {}
        if self.folds > 1:
            protocol |= {"parts": self.folds, "part": 0}
            vary = {"protocol.part": list(range(self.folds))}
        conditions = study.conditions.model_dump(mode="json") | {"min_delta": 0.0}
        conditions |= {} if steps is None else {"steps": steps}
        return Study.model_validate(
            {
                "name": study.name,
                "data": study.data.model_dump(mode="json"),
                "protocol": protocol,
                "conditions": conditions,
                "methods": [*(m for m in study.methods if m.label in others), method],
                "seeds": [seed],
                "metrics": [metric],
                "vary": vary,
            }
        )


def _count(catalog: Catalog, closed: bool, images: np.ndarray) -> int:
    return len(images) if closed else len(np.unique(catalog.labels[images]))


@dataclass(frozen=True)
class How:
    """How a search is made. None of it can depend on test classes."""

    budget: Budget = field(default_factory=lambda: Budget(trials=30))
    judge: Judge = field(default_factory=Judge)
    metric: str = ""
    """By default the first of the study's metrics by which methods can be ranked."""
    sampler: str = ""
    """By default tpe if Optuna is installed, halton otherwise."""
    seed: int = 0
    prune: bool = False
    judged_by: str = ""
    """Who judged, with the number of classes; the search fills it in."""

    @property
    def plain(self) -> dict[str, Any]:
        """As plain data, for logs."""
        return {
            "budget": self.budget.text + (", early stopping of weak trials" if self.prune else ""),
            "metric": self.metric,
            "judged_by": self.judged_by or self.judge.text,
            "sampler": self.sampler,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Attempt:
    """A trial that is to be made: its runs, those whose figures count, and what is known if it cannot be made."""

    trial: Trial
    runs: tuple[PlannedRun, ...] = ()

    @property
    def counted(self) -> tuple[PlannedRun, ...]:
        """Runs of the method itself, without those of its teacher and without members that another run joins."""
        own = [run for run in self.runs if run.label == self.runs[-1].label]
        return tuple(run for run in own if run.spec.member is None) or tuple(own)

    @property
    def needed(self) -> tuple[PlannedRun, ...]:
        """Runs of other methods that this one needs, such as its teacher; of joined runs without their parts."""
        others = [run for run in self.runs if run.label != self.runs[-1].label]
        parts = {need.name for run in others if run.spec.joined for need in run.spec.needs}
        return tuple(run for run in others if run.spec.folder_name not in parts)


def attempt(
    study: Study,
    judge: Judge,
    metric: str,
    trial: Trial,
    method: MethodSpec,
    *,
    seed: int,
    steps: int | None,
    digest: str,
    device: str,
) -> Attempt:
    """Plan a trial. Settings that the method refuses make a failed trial, not an error."""
    name = f"{method.label} {trial.number}" + (f" ({steps} steps)" if steps else "")
    try:
        candidate = applied(method, trial.settings)
        methods.create(candidate.name, num_classes=2, dim=study.conditions.dim, **candidate.settings)
        candidate = candidate if steps is None else _shorter(candidate, steps / study.conditions.steps)
        tried = judge.trial_study(study, metric, candidate, seed=seed, steps=steps)
        runs = plan(tried, digest=lambda data: digest, device=device)
    except Exception as error:  # a user's class may raise anything; the search goes on
        message = str(error) if isinstance(error, LevelfieldError) else f"{type(error).__name__}: {error}"
        return Attempt(replace(trial, error=message))
    relabelled = [replace(run, label=name) if run.label == method.label else run for run in runs]
    return Attempt(trial, tuple(relabelled))


def _shorter(method: MethodSpec, share: float) -> MethodSpec:
    """Its own number of steps, which would replace the study's, becomes this share of it."""
    own = method.conditions.get("steps")
    if own is None:
        return method
    return method.model_copy(update={"conditions": {**method.conditions, "steps": max(1, round(own * share))}})


def judged(
    one: Attempt, folder: Path, metric: str, failed: Mapping[str, str], charged: set[tuple[str, str]] | None = None
) -> Trial:
    """The trial with its figure (the mean over folds), time and images, read from its finished runs.

    charged: (method, run) of the needed runs whose cost is in an earlier trial: a teacher trains once for all trials.
    """
    if not one.runs:
        return one.trial
    charged = set() if charged is None else charged
    seconds, images, values = 0.0, 0, []
    for run in one.needed:
        result, key = read_result(run.folder(folder)), (one.trial.method, run.spec.folder_name)
        if result is not None and key not in charged:
            charged.add(key)
            seconds += result.seconds
            images += int(result.summary.get("images", 0))
    for run in one.counted:  # the run that joins members has the sum of their time and images
        result = read_result(run.folder(folder))
        if result is None:
            return replace(one.trial, error=failed.get(run.title, "the run did not finish"))
        seconds += result.seconds
        images += int(result.summary.get("images", 0))
        values.append(result.values[metric])
    mean = math.fsum(values) / len(values)
    if not math.isfinite(mean):
        return replace(one.trial, seconds=seconds, images=images, error=f"{metric} is {mean}")
    return replace(one.trial, value=mean, seconds=seconds, images=images)


def chosen(trials: Sequence[Trial]) -> Trial | None:
    """The best trial that trained to its end; the earlier one on a tie; None if there is none."""
    best: Trial | None = None
    for trial in trials:
        if trial.counts and (best is None or trial.value > best.value):  # type: ignore[operator]
            best = trial
    return best


def write_log(path: Path, trials: Sequence[Trial], **about: Any) -> None:
    """All trials as JSON, with what they have in common."""
    write_json(path, {**about, "trials": [asdict(trial) for trial in trials]})


class TuningProgress(RunsProgress):
    """Progress of a search. This one is silent; the command line draws bars and the best so far."""

    def on_methods(self, labels: Sequence[str]) -> None:
        """The methods that are searched, before the first trial."""

    def on_round(self, titles: Sequence[str]) -> None:
        """A round begins: `Event.run` indexes `titles` until the next round."""

    def on_trial(self, trial: Trial, *, spent: float) -> None:
        """A trial is over. spent: the share of its method's budget, from 0 to 1."""


SILENT_TUNING = TuningProgress()
