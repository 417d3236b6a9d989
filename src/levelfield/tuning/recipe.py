"""The recipe for somebody's own photos within a time limit: short trainings of the network first, the best one longer.

1. The untrained features at a few image sizes choose the size.
2. Every objective trains the network for the same few steps.
3. The better half goes on to twice the steps, until one is left.
4. It trains anew on all training classes, with the rest of the time, and is compared on the test classes.

Validation classes judge stages 1 to 3; the test classes choose nothing.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from levelfield import methods
from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.files.reading import read_json
from levelfield.files.writing import write_json
from levelfield.studies import ResolvedStudy, Study, resolve
from levelfield.studies.execution.events import RunsProgress
from levelfield.studies.execution.executor import Executor
from levelfield.studies.execution.study import execute_study
from levelfield.studies.planning.cost_measured import estimate
from levelfield.studies.planning.own_photos import GAIN
from levelfield.studies.runs.folder.store import Result, read_result
from levelfield.studies.runs.inputs import check_trunk, inputs_for
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.shared import SharedInputs
from levelfield.studies.specification.choices import MethodSpec, RecipeRecord
from levelfield.wording import duration, plural

# How the network trains: found on classes 1 to 100 of CUB and on Omniglot, benchmarks/results/recipe.json.
TRAINING: dict[str, Any] = {
    "views": 0,
    "cache": False,
    "augment": "standard",
    "batch": "15x4",
    "lr": 0.001,
    "trunk_lr": 0.0002,
    "warmup": 10,
    "head": "dropped",
    "proxies": "random",
}
TRAINED_PART = 0.7  # of the stages: the first ones cost most of a step's time, and hardly change
SIZES = (96, 128, 160, 192, 224)  # pixels of the images that are tested
LARGER = 1.5  # at most so many times the shorter side of the photos: networks trained at 224 px gain by enlarging
TRAINED_AT = 0.7  # of the tested size: a step costs half, and the score on larger images hardly changes
METRIC = "map@r"  # uses all images of a class, so it is less noisy than recall@1 on few validation classes
ENOUGH = 8  # training classes that are needed to hold some out
SHARE, FEWEST, MOST = 0.2, 3, 20  # validation classes: share of the training classes, at least, at most
LARGEST_SHARE = FEWEST / ENOUGH
FIRST_STEPS = 50  # of the shortest training; each further one doubles the steps
EPOCHS, USUAL_EPOCHS = 60, 10  # how often training sees every image: at most, and in the time that is not limited
USUAL_TIME = (300.0, 3600.0)  # seconds, at least and at most, if the user gives no limit
SEARCH, TEST = 0.35, 0.2  # shares of the time for stages 2 and 3, and for embedding the test images
AGAIN, MOST_SEEDS = 0.1, 3  # a training that takes less than this share of the time is repeated with other seeds
OVERHEAD = 20.0  # seconds of imports, tables and the page
SLOW_STEP, SECOND_CORE = 0.2, 0.8  # seconds of a step that threads divide; what each further thread adds to the speed
UNTRAINED = MethodSpec(name="untrained", label="untrained features")
# a training that may go on: it ends after its steps, and its rates do not depend on their number
OPEN_END: dict[str, Any] = {
    "select": "budget", "schedule": "constant", "patience": None, "validate_start": False, "min_delta": 0.0
}  # fmt: skip


@dataclass(frozen=True)
class Timing:
    """Seconds of one training step on images of `trained` pixels, and of embedding one image of `tested` pixels."""

    step: float
    trained: int
    image: float
    tested: int

    def step_at(self, size: int) -> float:
        return self.step * (size / self.trained) ** 2

    def image_at(self, size: int) -> float:
        return self.image * (size / self.tested) ** 2


@dataclass(frozen=True)
class Amounts:
    """Images of each part of the data, and images in a batch."""

    train: int
    validation: int
    test: int
    batch: int


@dataclass(frozen=True)
class Plan:
    """What is tried. sizes: of the test images; rungs: (steps, number of methods), shortest first.

    limit: seconds for everything. looking, searching: expected seconds of stage 1, and of stages 2 and 3. testing: of
    the end of stage 4, when nothing trains any more. shortest: of all stages with the fewest steps. judges: the
    validation classes in words. images: of the training classes.
    """

    limit: float
    sizes: tuple[int, ...]
    rungs: tuple[tuple[int, int], ...]
    looking: float
    searching: float
    testing: float
    shortest: float
    judges: str
    images: int

    def lines(self) -> list[str]:
        """The stages in words, with their expected times."""
        (first, count), *others = self.rungs
        longer = f"; the better half goes on, and again, to {others[-1][0]} steps" if others else ""
        last = self.limit - self.looking - self.searching
        lines = [
            f"1. untrained features at {', '.join(map(str, self.sizes))} pixels: about {duration(self.looking)}",
            f"2. {plural(count, 'objective trains', 'objectives train')} the network for {first} steps{longer}: about "
            f"{duration(self.searching)}",
            f"3. the best one trains on all training classes, and is tested: about {duration(max(0.0, last))}",
            f"{self.judges} judge 1 and 2.",
        ]
        if self.shortest > self.limit:
            lines.append(f"Even the shortest training makes it about {duration(self.shortest)}: more than that.")
        return lines


def trained_size(tested: int) -> int:
    """The size of training images for a size of test images.

    >>> [trained_size(side) for side in (96, 160, 224)]
    [64, 128, 160]
    """
    return max(64, round(TRAINED_AT * tested / 32) * 32)


def make_plan(
    limit: float, amounts: Amounts, timing: Timing, sizes: Sequence[int], competitors: int, cores: int, judges: str
) -> Plan:
    """Divide the time. More time makes rungs longer; those of less time are among them, so nothing is repeated."""
    affordable = [s for s in sizes if 2 * amounts.test * timing.image_at(s) / cores <= TEST * limit] or [min(sizes)]
    looking = sum(amounts.validation * timing.image_at(size) for size in affordable) / cores
    tested = max(affordable)
    testing = OVERHEAD + 2 * amounts.test * timing.image_at(tested) / min(cores, 2)
    step, judging = timing.step_at(trained_size(tested)), amounts.validation * timing.image_at(tested)
    most = max(FIRST_STEPS, EPOCHS * amounts.train // amounts.batch)

    def cost(rungs: Sequence[tuple[int, int]]) -> float:
        before = [0, *(steps for steps, _ in rungs)]
        added = [(steps - earlier, count) for (steps, count), earlier in zip(rungs, before, strict=False)]
        return sum(math.ceil(count / cores) * (steps * step + judging) for steps, count in added)

    budget = SEARCH * (limit - looking - testing)
    ladders = [halving(first, count) for count in range(1, competitors + 1) for first in _doubled(FIRST_STEPS, most)]
    fitting = [rungs for rungs in ladders if rungs[-1][0] <= most and cost(rungs) <= budget]
    # first the number of objectives, then the steps
    rungs = max(fitting, key=lambda rungs: (rungs[0][1], rungs[0][0]), default=[(FIRST_STEPS, 1)])
    while rungs[-1][0] * 2 <= most and cost([*rungs, (rungs[-1][0] * 2, 1)]) <= budget:
        rungs.append((rungs[-1][0] * 2, 1))
    shortest = looking + cost(rungs[:1]) + FIRST_STEPS * step + testing
    return Plan(limit, tuple(affordable), tuple(rungs), looking, cost(rungs), testing, shortest, judges, amounts.train)


def usual_time(amounts: Amounts, timing: Timing, sizes: Sequence[int], cores: int) -> float:
    """The time limit where the user gives none, in whole 5 minutes."""
    step = timing.step_at(trained_size(max(sizes)))
    testing = 2 * amounts.test * timing.image_at(max(sizes)) / cores
    seconds = (USUAL_EPOCHS * amounts.train / amounts.batch * step + testing) / (1 - SEARCH - TEST)
    least, most = USUAL_TIME
    return math.ceil(min(max(seconds, least), most) / 300) * 300.0


def halving(first: int, count: int) -> list[tuple[int, int]]:
    """Rungs of (steps, methods): half of the methods go on to twice the steps, until one is left. At least two rungs,
    so that the last one shows whether more steps help.

    >>> halving(50, 5), halving(50, 1)
    ([(50, 5), (100, 3), (200, 2), (400, 1)], [(50, 1), (100, 1)])
    """
    rungs = [(first, count), (2 * first, math.ceil(count / 2))]
    while rungs[-1][1] > 1:
        steps, left = rungs[-1]
        rungs.append((2 * steps, math.ceil(left / 2)))
    return rungs


def _doubled(first: int, most: int) -> list[int]:
    return [first * 2**k for k in range(max(1, most // first).bit_length())]


def training_content(content: dict[str, Any]) -> dict[str, Any]:
    """A study for photos whose network trains."""
    return {**content, "conditions": {**content["conditions"], **TRAINING}}


class RecipeProgress(RunsProgress):
    """Progress of a recipe. Silent; the command line draws bars."""

    def on_stage(self, text: str, titles: Sequence[str]) -> None:
        """Runs begin: `Event.run` indexes `titles` until the next call."""

    def on_decision(self, text: str) -> None:
        """What a stage decided."""


SILENT_RECIPE = RecipeProgress()


@dataclass
class Recipe:
    """The recipe for one study of photos.

    Args:
        study: its trained methods compete; of those that train nothing, untrained features are compared.
        folder: for the runs of the stages. The same recipe continues there, and with more time goes on from there.
        limit: seconds for everything; by default long enough for `USUAL_EPOCHS` on this machine.
        side: the usual shorter side of the photos in pixels.
        fixed: keys that the user has set and that stay.
        cores: runs at once, and threads of a run that is alone.
        spent: seconds before this moment.
    """

    study: Study
    folder: Path
    limit: float | None
    side: int
    fixed: Set[str] = frozenset()
    cores: int = 1
    options: Options = field(default_factory=Options)
    progress: RecipeProgress = SILENT_RECIPE
    executor: Executor | None = None
    spent: float = 0.0

    def __post_init__(self) -> None:
        self._began = time.monotonic() - self.spent
        self._shared = SharedInputs()
        self.options = replace(self.options, keep_state=True)
        self.trained = [method for method in self.study.methods if methods.trains(method.name)]
        if not self.trained:
            raise BadSpecification("No method of the study trains: name one, e.g. methods=[proxy_anchor].")
        self.study = self._changed(**OPEN_END)
        trunk = check_trunk(self.study.conditions.model_copy(update={"cut": "tuned"}))
        random = self.study.conditions.own_weights == "random"
        self.study = self._changed(cut="tuned" if random else f"last-{max(1, round(TRAINED_PART * trunk.stages))}")
        if "conditions.dim" in self.fixed:  # the user wants an embedding of this size
            self.study = self._changed(head="linear")
        elif self.study.conditions.head == "dropped":
            self.study = self._changed(dim=trunk.width)
        catalog = self._shared.open(self.study.data, self.progress)
        self._fold = self._shared.divided(catalog, self.study.protocol)[0]
        self.classes = len(np.unique(catalog.labels[self._fold.train]))
        self._share = self.study.protocol.validation or validation_share(self.classes)

    @property
    def can_judge(self) -> bool:
        """Whether there are training classes that can be held out: without them nothing is trained."""
        return self._share > 0

    def without_training(self) -> Study:
        """The methods that train nothing, at the largest size."""
        sizes = self._sizes()
        idle = tuple(method for method in self.study.methods if method not in self.trained)
        study = self._changed(image=sizes[-1], cut="frozen", views=1, cache=True, augment="none")
        return study.model_copy(update={"methods": idle or (UNTRAINED,), "seeds": (0,)})

    def _sizes(self) -> list[int]:
        if {"conditions.image", "conditions.test_image"} & self.fixed:
            return [self.study.conditions.tested_side]
        return [size for size in SIZES if size <= max(LARGER * self.side, SIZES[0])][-3:]

    # stages

    def plan(self, *, keep: bool = True) -> Plan:
        """Time a step and an image on this machine, and divide the time. keep: for the same recipe, started again."""
        if (stored := self._stored("plan")) is not None:
            stored["rungs"] = tuple(map(tuple, stored["rungs"]))
            return Plan(**{**stored, "sizes": tuple(stored["sizes"])})
        sizes = self._sizes()
        resolved = self._trial(sizes[0], self.trained[:1], FIRST_STEPS)
        with resolved.in_use():
            timed = estimate(resolved.study, resolved.runs, options=self.options, jobs=1).rows[0]
            inputs = inputs_for(resolved.runs[0].spec, self.options.cache_folder, self.options.device)
            conditions, fold, labels = resolved.study.conditions, inputs.fold, inputs.catalog.labels
        timing = Timing(timed.step, conditions.image, timed.image, conditions.tested_side)
        train = len(fold.train) + len(fold.validation)
        amounts = Amounts(train, len(fold.validation), len(self._fold.test), conditions.layout.batch_size)
        classes = (len(np.unique(labels[part])) for part in (fold.validation, fold.train))
        judges = "{} of {} training classes".format(*accumulate(classes))
        limit = self.limit or usual_time(amounts, timing, sizes, self.cores)
        plan = make_plan(limit, amounts, timing, sizes, len(self.trained), self.cores, judges)
        if keep:
            self._store("plan", asdict(plan))
        return plan

    def carry_out(self, plan: Plan) -> Study:
        """Stages 1 to 3. Returns the study of the fourth: the finalist and the untrained features."""
        if (stored := self._stored("final")) is not None:
            return Study.model_validate(stored["study"])
        sizes = {size: self._untrained(size) for size in plan.sizes}
        size = max(sizes, key=lambda side: sizes[side])
        conditions = self._changed(**self._sized(size)).conditions
        self.progress.on_decision(
            f"Untrained features, {METRIC} by image size: {_texts(sizes)}. Images are tested at "
            f"{conditions.tested_side} pixels and trained at {conditions.image}."
        )
        scores, seconds = self._halve(plan, size)
        study = self._final(plan, size, sizes, scores, seconds)
        self._store("final", {"study": study.model_dump(mode="json")})
        return study

    def _untrained(self, size: int) -> float:
        """The score of the untrained features at a size."""
        [result] = self._results(self._trial(size, [UNTRAINED], FIRST_STEPS), f"untrained features, {size} px").values()
        return result.values[METRIC]

    def _halve(self, plan: Plan, size: int) -> tuple[dict[str, dict[int, float]], float]:
        """The scores of each method after each of its trainings, and the seconds of a step."""
        scores: dict[str, dict[int, float]] = {method.label: {} for method in self.trained[: plan.rungs[0][1]]}
        going, seconds = list(scores), 0.0
        for steps, count in plan.rungs:
            going = going[:count]
            competitors = [method for method in self.trained if method.label in going]
            title = f"{plural(len(going), 'objective', 'objectives')}, {steps} steps"
            results = self._results(self._trial(size, competitors, steps), title)
            for label, result in results.items():
                scores[label][steps] = result.values[METRIC]
                seconds = max(seconds, result.seconds / steps)
            going = sorted(results, key=lambda label: -scores[label][steps])
            self.progress.on_decision(
                f"After {steps} steps: {_texts({label: scores[label][steps] for label in going})}."
            )
        return scores, seconds

    def _final(
        self, plan: Plan, size: int, sizes: dict[int, float], scores: dict[str, dict[int, float]], seconds: float
    ) -> Study:
        """The study of the last stage. seconds: of a training step."""
        values = {(label, steps): value for label, by_steps in scores.items() for steps, value in by_steps.items()}
        label, best = max(values, key=lambda key: values[key])
        left = plan.limit - self._elapsed() - plan.testing
        steps = min(max(FIRST_STEPS, int(left / seconds)), self._most_steps(plan.images))
        pays = values[label, best] > sizes[size] + GAIN / max(1, round(self._share * self.classes))
        rises = best == max(scores[label])  # more steps have not done harm
        if not (pays and rises):
            steps = min(steps, best)
        short = steps * seconds <= AGAIN * plan.limit
        threads = 1 if short or seconds < SLOW_STEP else self.cores
        seeds = max(1, min(MOST_SEEDS, int(left * self.cores / (steps * seconds)))) if threads == 1 else 1
        if threads > 1 and pays and rises:
            steps = min(int(steps * (1 + SECOND_CORE * (threads - 1))), self._most_steps(plan.images))
        record = RecipeRecord(
            time=duration(plan.limit), metric=METRIC, judged_by=plan.judges, sizes=sizes, scores=scores,
            best=label if pays else UNTRAINED.label,
        )  # fmt: skip
        self.progress.on_decision(
            f"Best: {label} after {best} steps, {values[label, best]:.3f} (untrained features {sizes[size]:.3f}). It "
            f"now trains on all training classes for {steps} steps{f', {seeds} times' if seeds > 1 else ''}."
        )
        finalist = next(method for method in self.trained if method.label == label)
        study = self._changed(**self._sized(size), steps=steps, schedule="cosine", threads=threads)
        numbers = study.seeds if "seeds" in self.fixed else tuple(range(seeds))
        tried = plural(len(scores), "objective", "objectives")
        about = (
            f"The best of {tried} on {study.data.name}, found within {record.time}, beside features that train nothing."
        )
        update = {"about": about, "methods": (UNTRAINED, finalist), "seeds": numbers, "recipe": record}
        return study.model_copy(update=update)

    def _most_steps(self, images: int) -> int:
        return max(FIRST_STEPS, EPOCHS * images // self.study.conditions.layout.batch_size)

    # runs

    def _trial(self, size: int, competitors: Sequence[MethodSpec], steps: int) -> ResolvedStudy:
        """A study of these methods that validation classes judge."""
        study = self._changed(**self._sized(size), steps=steps)
        protocol = {"name": "choosing", "of": study.protocol.model_dump(mode="json"), "validation": self._share}
        content = study.model_dump(mode="json") | {
            "protocol": protocol,
            "seeds": [0],
            "metrics": [METRIC],
            "figures": [],
        }
        content["methods"] = [method.model_dump() for method in competitors]
        return resolve(Study.model_validate(content), options=self.options, shared=self._shared, progress=self.progress)

    def _results(self, resolved: ResolvedStudy, text: str) -> dict[str, Result]:
        """The results of a study by method, without those that failed."""
        runs, folder = resolved.runs, self.folder
        self.progress.on_stage(text, [run.title for run in runs])
        outcome = execute_study(
            resolved, folder, jobs=self.cores, progress=self.progress, describe=False, executor=self.executor
        )
        if len(outcome.failed) == len(runs):
            raise LevelfieldError(f"All runs failed. The first error: {outcome.failed[0]}")
        results = {run.label: read_result(run.folder(folder)) for run in runs}
        return {label: result for label, result in results.items() if result is not None}

    def _changed(self, **conditions: Any) -> Study:
        """The study with other conditions, but for those that the user has fixed."""
        chosen = {key: value for key, value in conditions.items() if f"conditions.{key}" not in self.fixed}
        content = self.study.model_dump(mode="json")
        return Study.model_validate({**content, "conditions": {**content["conditions"], **chosen}})

    def _sized(self, tested: int) -> dict[str, int]:
        return {"image": trained_size(tested), "test_image": tested}

    # what was decided, for the same command after an interruption

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _stored(self, name: str) -> dict[str, Any] | None:
        file = self._file(name)
        if not file.exists():
            return None
        content: dict[str, Any] = read_json(file)
        self._began = min(self._began, time.monotonic() - content.pop("elapsed"))
        return content

    def _store(self, name: str, content: dict[str, Any]) -> None:
        write_json(self._file(name), {**content, "elapsed": self._elapsed()})

    def _file(self, name: str) -> Path:
        """The file of a decision for this study, time limit and number of cores."""
        asked = f"{self.study.model_dump_json()} {self.limit} {self.cores} {self.side}"
        return self.folder / f"{name}-{hashlib.blake2b(asked.encode(), digest_size=6).hexdigest()}.json"


def validation_share(classes: int) -> float:
    """The share of the training classes that judges, 0 if there are too few.

    >>> [validation_share(classes) for classes in (4, 10, 50, 1000)]
    [0.0, 0.3, 0.2, 0.02]
    """
    return round(min(max(round(SHARE * classes), FEWEST), MOST) / classes, 4) if classes >= ENOUGH else 0.0


def _texts(scores: Mapping[Any, float]) -> str:
    return ", ".join(f"{name} {score:.3f}" for name, score in scores.items())
