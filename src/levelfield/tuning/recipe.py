"""The recipe for somebody's own photos within a time limit: short trainings of the network first, the best one longer.

1. The untrained features at a few image sizes choose the size.
2. Every objective trains the network for the same few steps; the better half goes on to twice the steps, until one is
   left.
3. It trains anew on all training classes, with the rest of the time, and is compared on the test classes.

Validation classes judge stages 1 and 2; the test classes choose nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

import levelfield
from levelfield import methods
from levelfield.embedder.devices import usable
from levelfield.embedder.trunk.backbones import describe
from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.files.reading import digest, read_json
from levelfield.files.writing import write_json
from levelfield.studies import ResolvedStudy, Study, execute_study, parse_study, resolve
from levelfield.studies.execution.events import RunsProgress
from levelfield.studies.execution.executor import Executor
from levelfield.studies.planning.cost_measured import estimate
from levelfield.studies.planning.own_photos import GAIN, held_out_share
from levelfield.studies.runs.folder.store import Result, read_result
from levelfield.studies.runs.inputs import check_trunk, inputs_for
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.shared import SharedInputs
from levelfield.studies.specification.choices import MethodSpec, ProtocolChoice, RecipeRecord
from levelfield.tuning.recipe_plan import (
    FIRST_STEPS,
    MAX_ENLARGEMENT,
    MAX_VALIDATION_CLASSES,
    SIZES,
    VALIDATION_SHARE,
    Amounts,
    StagePlan,
    Timing,
    make_plan,
    trained_size,
    usual_time,
)
from levelfield.wording import duration, plural

# How the network trains: found on classes 1 to 100 of CUB, benchmarks/results/recipe.json.
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
    "start_share": 0.25,
}
LARGER_SHARE = 0.5  # of the start weights: better on few images, benchmarks/results/recipe_judges.json
# What trains if the user asks for a frozen network: a head on stored features.
FROZEN: dict[str, Any] = {"views": 1, "cache": True, "augment": "none", "head": "linear"}
TRAINED_PART = 0.7  # of the stages, on a CPU: the first ones cost most of a step's time, and hardly change
METRIC = "map@r"  # uses all images of a class, so it is less noisy than recall@1 on few validation classes
HEADLINE = "recall@1"  # which may not fall
REPEAT_SHARE, MOST_SEEDS = 0.1, 3  # a training that takes less than this share of the time is repeated with other seeds
SLOW_STEP = 0.2  # seconds of a step that threads divide
MOST_THREADS, NEXT_THREAD = 4, 0.8  # of a step; what each further thread adds to the speed
UNTRAINED = MethodSpec(name="untrained", label="untrained features")
# a training that may go on: it ends after its steps, and its rates do not depend on their number
OPEN_END: dict[str, Any] = {
    "select": "budget", "schedule": "constant", "patience": None, "validate_start": False, "min_delta": 0.0
}  # fmt: skip


class RecipeProgress(RunsProgress):
    """Progress of a recipe. Silent; the command line draws bars."""

    def on_stage(self, text: str, titles: Sequence[str]) -> None:
        """Runs begin: `Event.run` indexes `titles` until the next call."""

    def on_decision(self, text: str) -> None:
        """What a stage decided."""


@dataclass
class MethodScores:
    """Validation scores of one method, by number of training steps.

    scores, headlines: `METRIC` and `HEADLINE` by the number of steps. seconds: of a training step.
    """

    scores: dict[int, float] = field(default_factory=dict)
    headlines: dict[int, float] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, steps: int, result: Result) -> None:
        self.scores[steps], self.headlines[steps] = result.values[METRIC], result.values[HEADLINE]
        self.seconds = result.seconds / steps

    @property
    def best(self) -> int:
        """The number of steps with the best score."""
        return max(self.scores, key=lambda steps: self.scores[steps])

    def pays(self, untrained: MethodScores, judges: int) -> bool:
        """Whether training gains more than what few judging classes gain by chance, and does not cost recall."""
        [before] = untrained.scores
        gain = self.scores[self.best] - untrained.scores[before]
        return gain > GAIN / judges and self.headlines[self.best] >= untrained.headlines[before]


@dataclass
class Recipe:
    """The recipe for one study of photos.

    Args:
        study: its trained methods compete; of those that train nothing, untrained features are compared, and those that
            the user has named.
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
    progress: RecipeProgress = field(default_factory=RecipeProgress)
    executor: Executor | None = None
    spent: float = 0.0

    def __post_init__(self) -> None:
        self._began = time.monotonic() - self.spent
        self._shared = SharedInputs()
        self.options = replace(self.options, keep_state=True)
        self.trained = [method for method in self.study.methods if methods.trains(method.name)]
        if not self.trained:
            raise BadSpecification("No method of the study trains: name one, e.g. methods=[proxy_anchor].")
        if "conditions.select" in self.fixed:
            raise BadSpecification(
                "conditions.select chooses the number of steps, and so does the training in stages: leave it out, or "
                "give conditions.steps, too."
            )
        patch = describe(self.study.conditions.backbone).patch
        self._grain = patch if 32 % patch else 32
        self.study = self._changed(**OPEN_END, **self._sized(max(self._sizes())))
        trunk = check_trunk(self.study.conditions.model_copy(update={"cut": "tuned"}))
        if random := self.study.conditions.own_weights == "random":
            self.study = self._changed(start_share=0.0)
        whole = random or usable(self.options.device) != "cpu"
        self.study = self._changed(cut="tuned" if whole else f"last-{max(1, round(TRAINED_PART * trunk.stages))}")
        if self.study.conditions.cut == "frozen":
            self.study = self._changed(**FROZEN)
        elif "conditions.dim" in self.fixed:  # the user wants an embedding of this size
            self.study = self._changed(head="linear")
        elif self.study.conditions.head == "dropped":
            self.study = self._changed(dim=trunk.width)
        self._catalog = self._shared.open(self.study.data, self.progress)
        self._folds = self._shared.divided(self._catalog, self.study.protocol)
        self.classes = len(np.unique(self._catalog.labels[self._folds[0].train]))
        share = self.study.protocol.validation or held_out_share(self.classes, VALIDATION_SHARE, MAX_VALIDATION_CLASSES)
        content = {"name": "choosing", "of": self.study.protocol.model_dump(mode="json"), "validation": share}
        self._choosing = ProtocolChoice.model_validate(content)
        self.judges = self._count_judges()

    def _count_judges(self) -> int:
        """The number of classes that judge; 0 if none can be held out: then nothing is trained."""
        try:
            judging = self._choosing.divide(self._catalog)[0].validation
        except LevelfieldError:  # few classes, one group of classes, or classes of a single image
            return 0
        return len(np.unique(self._catalog.labels[judging]))

    @property
    def untrained_study(self) -> Study:
        """The study of a recipe that cannot judge: the methods that train nothing, at the largest size."""
        idle = tuple(method for method in self.study.methods if method not in self.trained)
        about = f"Features that train nothing on {self.study.data.name}: no classes could judge whether training helps."
        study = self._changed(**FROZEN, **self._sized(max(self._sizes())), cut="frozen")
        return study.model_copy(update={"about": about, "methods": idle or (UNTRAINED,), "seeds": (0,)})

    def elapsed(self) -> float:
        """Seconds since the recipe began, those before an interruption included."""
        return time.monotonic() - self._began

    # stages

    def plan(self, *, keep: bool = True) -> StagePlan:
        """Time a step and an image on this machine, and divide the time. keep: for the same recipe, started again."""
        if (stored := self._stored("plan")) is not None:
            return TypeAdapter(StagePlan).validate_python(stored)
        sizes = {size: self._sized(size)["image"] for size in self._sizes()}
        resolved = self._trial(min(sizes), self.trained, FIRST_STEPS)
        with resolved.in_use():
            rows = estimate(resolved.runs[:1], options=self.options, jobs=1).rows
            inputs = inputs_for(resolved.runs[0].spec, self.options.cache_folder, self.options.device)
            conditions, fold, labels = resolved.study.conditions, inputs.fold, inputs.catalog.labels
        if not rows[0].step:
            raise LevelfieldError(f"{rows[0].label} cannot train: {'; '.join(rows[0].deviations)}.")
        timing = Timing(rows[0].step, conditions.image, rows[0].image, conditions.tested_side)
        train, test = len(fold.train) + len(fold.validation), len(self._folds[0].test)
        batch = conditions.layout.batch_size
        amounts = Amounts(train, len(fold.validation), test, batch, len(self._folds))
        judges = f"{self.judges} of {self.judges + len(np.unique(labels[fold.train]))} training classes"
        limit = self.limit or usual_time(amounts, timing, sizes, self.cores)
        plan = make_plan(limit, amounts, timing, sizes, [method.label for method in self.trained], self.cores, judges)
        if keep:
            self._store("plan", asdict(plan))
        return plan

    def carry_out(self, plan: StagePlan) -> Study:
        """Stages 1 and 2. Returns the study of the third: the finalist and features that train nothing."""
        if (stored := self._stored("final")) is not None:
            return Study.model_validate(stored["study"])
        title = UNTRAINED.label + ", {} px"
        sizes = {size: self._scores(UNTRAINED, size, FIRST_STEPS, title.format(size)) for size in plan.sizes}
        size = max(sizes, key=lambda side: sizes[side].scores[FIRST_STEPS])
        conditions = self._changed(**self._sized(size)).conditions
        scores = {side: tried.scores[FIRST_STEPS] for side, tried in sizes.items()}
        self.progress.on_decision(
            f"Untrained features, {METRIC} by image size: {_texts(scores)}. Images are tested at "
            f"{conditions.tested_side} pixels and trained at {conditions.image}."
        )
        tried = self._halve(plan, size)
        study = self._final(plan, size, sizes, tried)
        self._store("final", {"study": study.model_dump(mode="json")})
        return study

    def _scores(self, method: MethodSpec, size: int, steps: int, title: str, **conditions: Any) -> MethodScores:
        """What validation classes say of one training, or of a method that trains nothing."""
        scores = MethodScores()
        scores.add(steps, self._results(self._trial(size, [method], steps, **conditions), title)[method.label])
        return scores

    def _halve(self, plan: StagePlan, size: int) -> dict[str, MethodScores]:
        """What each method reached after each of its trainings."""
        tried = {label: MethodScores() for label in plan.methods}
        going, before = list(tried), 0
        for steps, count in plan.rungs:
            going = going[:count]
            if before:
                slowest = max(tried[label].seconds for label in going)
                needed = -(-len(going) // self.cores) * ((steps - before) * slowest + plan.scoring_seconds)
                final = steps * slowest * len(self._folds) + plan.test_seconds
                if self.elapsed() + needed + final > plan.limit:
                    self.progress.on_decision(
                        f"No time for {steps} steps: the machine is slower than it was. {duration(plan.limit)} leave "
                        f"{duration(max(0.0, plan.limit - self.elapsed()))} for the last training."
                    )
                    break
            competitors = [method for method in self.trained if method.label in going]
            best = f"; best so far: {going[0]} {tried[going[0]].scores[before]:.3f}" if before else ""
            title = f"{plural(len(going), 'objective', 'objectives')}, {steps} steps{best}"
            results = self._results(self._trial(size, competitors, steps), title, needed=not before)
            if not results:
                break
            for label, result in results.items():
                tried[label].add(steps, result)
            going = sorted(results, key=lambda label: -tried[label].scores[steps])
            before = steps
            self.progress.on_decision(
                f"After {steps} steps: {_texts({label: tried[label].scores[steps] for label in going})}."
            )
        return tried

    def _final(
        self, plan: StagePlan, size: int, sizes: dict[int, MethodScores], tried: dict[str, MethodScores]
    ) -> Study:
        """The study of the last stage."""
        scored = {label: record for label, record in tried.items() if record.scores}
        label = max(scored, key=lambda label: scored[label].scores[scored[label].best])
        method = next(method for method in self.trained if method.label == label)
        winner, seconds = scored[label], scored[label].seconds * len(self._folds)
        shares = {self.study.conditions.start_share: winner}
        if 0 not in shares and "conditions.start_share" not in self.fixed:
            title = f"{label} with {LARGER_SHARE:g} of the start weights"  # no step is trained again
            shares[LARGER_SHARE] = self._scores(method, size, winner.best, title, start_share=LARGER_SHARE)
        share = max(shares, key=lambda share: shares[share].scores[winner.best])
        judged = shares[share]
        left = plan.limit - self.elapsed() - plan.test_seconds
        affordable = min(max(FIRST_STEPS, int(left / seconds)), plan.most_steps)
        pays = judged.pays(sizes[size], self.judges)
        rises = winner.best == max(winner.scores)  # more steps have not done harm
        steps = affordable if pays and rises else min(affordable, winner.best)
        short = steps * seconds <= REPEAT_SHARE * plan.limit
        threads = 1 if short or winner.seconds < SLOW_STEP else min(self.cores, MOST_THREADS)
        numbers = self.study.seeds if "seeds" in self.fixed else (0,)
        if "seeds" not in self.fixed and threads == 1:
            numbers = tuple(range(max(1, min(MOST_SEEDS, int(left * self.cores / (steps * seconds))))))
        if threads > 1 and pays and rises:
            steps = min(int(steps * (1 + NEXT_THREAD * (threads - 1)) / len(numbers)), plan.most_steps)
        again = f", {len(numbers)} times" if len(numbers) > 1 else ""
        less = ", since no time is left for more" if steps < winner.best else ""
        untrained = sizes[size].scores[FIRST_STEPS]
        mixed = f", mixed with {share:g} of the start weights" if share else ""
        self.progress.on_decision(
            f"Best: {label} after {winner.best} steps{mixed}: {judged.scores[winner.best]:.3f} (untrained features "
            f"{untrained:.3f}). It now trains on all training classes for {steps} steps{again}{less}."
        )
        record = RecipeRecord(
            time=duration(plan.limit), metric=METRIC, judged_by=plan.judges_text,
            sizes={side: record.scores[FIRST_STEPS] for side, record in sizes.items()},
            scores={label: record.scores for label, record in tried.items()}, untried=plan.skipped_methods,
            best=label if pays else UNTRAINED.label,
        )  # fmt: skip
        competitors = plural(len(tried), "objective", "objectives")
        update = {
            "about": f"The best of {competitors} on {self.study.data.name}, found within {record.time}, beside "
            "features that train nothing.",
            "methods": (*self._idle(), method),
            "seeds": numbers,
            "recipe": record,
        }
        length = {"steps": steps, "schedule": "cosine", "threads": threads, "start_share": share}
        study = self._changed(**self._sized(size), **length)
        return study.model_copy(update=update)

    def _idle(self) -> tuple[MethodSpec, ...]:
        """Untrained features, and what the user has named besides that trains nothing."""
        named = self.study.methods if "methods" in self.fixed else ()
        idle = [method for method in named if method not in self.trained and method.name != UNTRAINED.name]
        return (UNTRAINED, *idle)

    # runs

    def _sizes(self) -> list[int]:
        """The sizes of test images that are tried, smallest first."""
        if {"conditions.image", "conditions.test_image"} & self.fixed:
            return [self.study.conditions.tested_side]
        fitting = [size for size in SIZES if size <= max(MAX_ENLARGEMENT * self.side, SIZES[0])][-3:]
        return [round(size / self._grain) * self._grain for size in fitting]

    def _sized(self, tested: int) -> dict[str, int]:
        """Sizes of training and test images; a grid of a map's places has only one."""
        image = tested if self.study.conditions.pooling == "grid" else trained_size(tested, self._grain)
        return {"image": image, "test_image": tested}

    def _trial(self, size: int, competitors: Sequence[MethodSpec], steps: int, **conditions: Any) -> ResolvedStudy:
        """A study of these methods that validation classes judge."""
        study = self._changed(**self._sized(size), steps=steps, **conditions)
        content = study.model_dump(mode="json") | {
            "protocol": self._choosing.model_dump(mode="json"),
            "seeds": [0],
            "metrics": [METRIC, HEADLINE],
            "figures": [],
        }
        content["methods"] = [method.model_dump() for method in competitors]
        return resolve(Study.model_validate(content), options=self.options, shared=self._shared, progress=self.progress)

    def _results(self, resolved: ResolvedStudy, text: str, *, needed: bool = True) -> dict[str, Result]:
        """The results of a study by method, without those that failed. needed: raise if all failed."""
        runs, folder = resolved.runs, self.folder
        self.progress.on_stage(text, [run.title for run in runs])
        outcome = execute_study(
            resolved, folder, jobs=self.cores, progress=self.progress, describe=False, executor=self.executor
        )
        if needed and len(outcome.failed) == len(runs):
            raise LevelfieldError(f"All runs failed. The first error: {outcome.failed[0]}")
        results = {run.label: read_result(run.folder(folder)) for run in runs}
        return {label: result for label, result in results.items() if result is not None}

    def _changed(self, **conditions: Any) -> Study:
        """The study with other conditions, but for those that the user has fixed."""
        chosen = {key: value for key, value in conditions.items() if f"conditions.{key}" not in self.fixed}
        content = self.study.model_dump(mode="json")
        return parse_study({**content, "conditions": {**content["conditions"], **chosen}}, origin="the recipe")

    # what was decided, for the same command after an interruption

    def _stored(self, name: str) -> dict[str, Any] | None:
        file = self._file(name)
        if not file.exists():
            return None
        content: dict[str, Any] = read_json(file)
        self._began = min(self._began, time.monotonic() - content.pop("elapsed"))
        return content

    def _store(self, name: str, content: dict[str, Any]) -> None:
        write_json(self._file(name), {**content, "elapsed": self.elapsed()})

    def _file(self, name: str) -> Path:
        """The file of a decision for these photos, this study, what of it is fixed, time limit and machine."""
        machine = f"{self.limit} {self.cores} {usable(self.options.device)} {levelfield.__version__}"
        asked = f"{self._catalog.digest} {self.study.model_dump_json()} {sorted(self.fixed)} {self.side} {machine}"
        return self.folder / f"{name}-{digest(asked)}.json"


def _texts(scores: Mapping[Any, float]) -> str:
    return ", ".join(f"{name} {score:.3f}" for name, score in scores.items())
