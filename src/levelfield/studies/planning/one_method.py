"""One method of a study, with those that it needs: as compared, or on every class."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from levelfield import methods
from levelfield.errors import BadSpecification
from levelfield.studies.planning.plan import needed_labels, with_needed
from levelfield.studies.planning.resolve import ResolvedStudy
from levelfield.studies.runs.folder.store import read_plan, read_result
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.study import Study, Variation, assign, parse_study

START = "head at its start"


@dataclass(frozen=True)
class OneMethod:
    """A study of the method `label`. steps: their number, if validation classes chose it in compared runs."""

    study: Study
    label: str
    seed: int
    steps: int | None = None

    def runs(self, resolved: ResolvedStudy) -> list[PlannedRun]:
        """The run of the method, last, and those that it needs."""
        runs = [run for run in resolved.runs if run.label == self.label]
        runs = [run for run in runs if run.spec.seed == self.seed or not run.seeded]
        if not runs:
            seeds = ", ".join(map(str, self.study.seeds))
            raise BadSpecification(
                f"'{self.label}' needs all seeds of the study ({seeds}): --seed {self.seed} is not one of them."
            )
        return with_needed(resolved.runs, runs[-1])  # the last run joins the others, if there are members


def one_method(
    study: Study, label: str, *, seed: int, variation: Variation = (), all_classes: Path | None = None
) -> OneMethod:
    """The study of one method and of those that it needs.

    Args:
        study: the compared study.
        label: the method.
        seed: the only seed, unless a method joins several.
        variation: varied values to keep.
        all_classes: the folder of the compared study, whose runs choose the number of steps; None: train on the classes
            that the protocol chooses.
    """
    content = study.model_dump(mode="json") | {"vary": {}}
    for key, value in variation:
        assign(content, key, value)
    needed = needed_labels(study.methods, label)
    content["methods"] = [method for method in content["methods"] if method["label"] in needed]
    if not any(methods.joins_seeds(method["name"], method["settings"]) for method in content["methods"]):
        content["seeds"] = [seed]
    steps = None
    if all_classes is not None:
        content |= {"name": f"{study.name}-all-classes", "protocol": {"name": "all-classes"}, "figures": []}
        if study.conditions.select != "budget":
            if any(methods.trains(method["name"]) for method in content["methods"]):
                steps = chosen_steps(all_classes, needed)
            fixed = max(1, study.conditions.steps if steps is None else steps)
            conditions = {"steps": fixed, "select": "budget", "patience": None}
            unused = ("validate_start", "min_delta")  # without validation classes
            kept = {key: value for key, value in content["conditions"].items() if key not in unused}
            content["conditions"] = kept | conditions
    if steps == 0:
        content["methods"], label = [{"name": "start", "label": START}], START
    return OneMethod(parse_study(content), label, seed, steps)


def chosen_steps(study_folder: Path, labels: Set[str]) -> int:
    """The number of steps that the validation classes chose for these methods: the median over their runs."""
    runs = [run for run in read_plan(study_folder) if run.label in labels] if study_folder.is_dir() else []
    results = [result for run in runs if (result := read_result(run.folder(study_folder))) is not None]
    steps: list[int] = [result.summary["best_step"] for result in results if result.summary.get("history")]
    if not steps:
        raise BadSpecification(
            "--all-classes leaves no validation classes, and no compared run has chosen the number of steps: run "
            "`levelfield compare` first, or set conditions.select=budget."
        )
    return round(median(steps))
