"""From a study to its finished runs: check, plan, execute."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from levelfield import methods
from levelfield.batching import check_fit
from levelfield.data import Catalog, protocols
from levelfield.distributed.ranks import backend_for, check_device
from levelfield.embedder import Trunk
from levelfield.embedder.devices import computing_on
from levelfield.errors import BadSpecification, LevelfieldError, MissingData
from levelfield.evaluation import parse
from levelfield.evaluation.metrics.registry import ranking
from levelfield.files.writing import write_text
from levelfield.progress import SILENT, Progress
from levelfield.studies.execution.events import SILENT_RUNS, Event, RunsProgress
from levelfield.studies.execution.executor import Executor
from levelfield.studies.execution.workers import Outcome, WorkerProcesses, run_all
from levelfield.studies.leaderboard.earlier import keep_earlier, kept_text
from levelfield.studies.planning.cost_counted import missing_weights
from levelfield.studies.planning.plan import plan
from levelfield.studies.runs.folder.store import write_plan
from levelfield.studies.runs.inputs import check_trunk, open_catalog
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.runs.teacher import check_code
from levelfield.studies.specification.choices import Data
from levelfield.studies.specification.claims import check_claims
from levelfield.studies.specification.study import Study
from levelfield.studies.specification.variations import check_methods
from levelfield.training import Conditions
from levelfield.training.checks import check_division
from levelfield.training.precision import check_precision
from levelfield.trust import trusted


def prepare(
    study: Study,
    *,
    tested: bool = True,
    device: str = "cpu",
    download: bool = True,
    progress: Progress = SILENT,
) -> list[PlannedRun]:
    """Check all that can be checked before training, and return the runs of a study.

    tested: require test classes. `train` does not need them.
    download: let timm download weights that are not on this machine; otherwise they are missing.
    progress: progress of the images that are checked for the first time.
    """
    ranking(study.metrics)
    check_methods(study)
    protocols.registry.get(study.protocol.name)  # an unknown protocol is reported before all images are checked
    catalogs: dict[Data, Catalog] = {}

    def digest(data: Data) -> str:
        catalogs[data] = open_catalog(data, progress=progress)
        return catalogs[data].digest

    runs = plan(study, digest=digest, device=device)
    check_claims(study.claims, list(dict.fromkeys(run.row for run in runs)), study.metrics)
    if not download and (lacking := missing_weights(runs)):
        raise MissingData("\n".join(lacking))
    different = [run.spec.conditions for run in runs]
    check_device(device, max((conditions.processes for conditions in different), default=1))
    for precision, processes in {(c.precision, c.processes) for c in different}:
        check_precision(precision, device)
        if processes > 1:
            backend_for(device, int(os.environ.get("LOCAL_WORLD_SIZE", processes)))
    for metric in {c.select for c in different} - {"budget"}:
        ranking([metric])
    trunks = {_trunk_of(conditions): conditions for conditions in different}
    checked = {key: check_trunk(conditions) for key, conditions in trunks.items()}
    folds: dict[tuple[Data, str], list[protocols.Fold]] = {}
    for run in {(r.row, str(r.variation), r.spec.fold, r.spec.joined): r for r in runs}.values():
        catalog, protocol = catalogs[run.spec.data], run.spec.protocol
        known = (run.spec.data, protocol.model_dump_json())
        folds[known] = folds.get(known) or protocol.divide(catalog)
        fold = folds[known][run.spec.fold or 0]
        if tested and not len(fold.test):
            raise BadSpecification(
                f"The protocol '{protocol.name}' has no test classes, so nothing can be compared. Use it with "
                "`levelfield train`."
            )
        _check_method(run, fold, catalog.labels, checked[_trunk_of(run.spec.conditions)])
    return runs


def run_study(
    study: Study, folder: Path, *, jobs: int, options: Options, progress: RunsProgress = SILENT_RUNS
) -> list[PlannedRun]:
    """Execute the unfinished runs of a study in `folder`; returns all runs. An earlier study there is kept."""
    runs = prepare(study, device=options.device, progress=progress)
    kept = keep_earlier(folder, runs, study.metrics)
    if kept is not None:
        logging.getLogger("levelfield").warning(kept_text(folder, kept))
    outcome = carry_out(study, runs, folder, jobs=jobs, options=options, progress=progress)
    outcome.refuse_if_all_failed(len(runs))
    return runs


def carry_out(
    study: Study,
    runs: list[PlannedRun],
    folder: Path,
    *,
    jobs: int,
    options: Options,
    progress: RunsProgress,
    describe: bool = True,
    executor: Executor | None = None,
) -> Outcome:
    """Write study.yaml and the plan (unless the study is part of one described there), then execute the runs.

    executor: who executes them; by default `jobs` worker processes.
    """
    if describe:
        content = yaml.safe_dump(study.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        write_text(folder / "study.yaml", content)
        write_plan(folder, runs)
    options = replace(options, trust=trusted())
    outcome = run_all(runs, folder, study.metrics, jobs=jobs, options=options, progress=progress, executor=executor)
    if study.corruptions:
        with computing_on(options.device):
            outcome.unmeasured = _corrupt(study, runs, folder, outcome, executor or WorkerProcesses(jobs), progress)
    return outcome


def _corrupt(
    study: Study,
    runs: list[PlannedRun],
    folder: Path,
    outcome: Outcome,
    executor: Executor,
    progress: RunsProgress,
) -> dict[int, str]:
    """Evaluate every finished run on corrupted test images; returns the failed runs, with the reason."""
    metrics = [name for name in ranking(study.metrics) if parse(name).kind == "retrieval"] or ranking(study.metrics)[:1]
    places = {run.folder(folder): number for number, run in enumerate(runs) if number not in outcome.failed}
    done = {place: number for place, number in places.items() if (place / "items.csv").exists()}  # with test images
    shown = {place: progress.of_run(number) for place, number in done.items()}
    failed = executor.record(list(done), study.corruptions, metrics, shown)
    reasons = {done[place]: reason for place, reason in failed.items()}
    for number in done.values():
        failure = f"on corrupted images: {reasons[number]}" if number in reasons else ""
        progress.on_event(Event("failed", number, failure) if failure else Event("done", number))
    return reasons


def _trunk_of(conditions: Conditions) -> tuple[Any, ...]:
    """The conditions that decide whether a trunk can be built, and where it is cut."""
    c = conditions
    return c.backbone, c.own_weights, c.cut, c.taps, c.pooling, c.image


def _check_method(run: PlannedRun, fold: protocols.Fold, labels: np.ndarray, trunk: Trunk) -> None:
    """Refuse, before training, a batch layout that the training classes cannot fill, or a trunk that does not suit the
    method."""
    conditions = run.spec.conditions
    method = methods.create(run.spec.method.name, num_classes=2, dim=conditions.dim, **run.spec.method.settings)
    if not method.trains or run.spec.joined:
        return
    try:
        check_division(method, conditions, trunk)
    except BadSpecification as error:
        raise BadSpecification(f"Method '{run.label}': {error}") from error
    layout, drawn = conditions.batches(method)
    try:
        epoch = conditions.batches_per_epoch
        made = drawn.make(labels[fold.train], layout, batches_per_epoch=epoch)
        check_fit(made, method.objective)
        method.check(trunk, made)
        for need in run.spec.needs:
            if (folder := Path(need.name).expanduser()).is_dir():  # a teacher of another study
                check_code(folder)
        if run.spec.member is not None:
            method.labels(np.unique(labels[fold.train], return_inverse=True)[1], run.spec.member, run.spec.seed)
    except LevelfieldError as error:
        where = "" if run.spec.fold is None else f" in fold {run.spec.fold}"
        raise type(error)(f"Method '{run.label}'{where}: {error}") from error
