"""Resolve a study: all that its runs share, made and checked once, before anything is trained."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.data import protocols
from levelfield.distributed.ranks import backend_for
from levelfield.embedder import Trunk
from levelfield.errors import BadSpecification, LevelfieldError, MissingData
from levelfield.evaluation.metrics.registry import ranking
from levelfield.methods import Method
from levelfield.progress import SILENT, Progress
from levelfield.settings import check_settings
from levelfield.studies.planning.cost_counted import missing_weights
from levelfield.studies.planning.plan import plan
from levelfield.studies.runs.folder.method_file import make_method
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.setup import planner
from levelfield.studies.runs.shared import SharedInputs, sharing
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.runs.teacher import check_code
from levelfield.studies.runs.training import Options
from levelfield.studies.specification.choices import MethodSpec, check_claims
from levelfield.studies.specification.methods import build_method
from levelfield.studies.specification.study import Study, variations
from levelfield.training import Conditions
from levelfield.training.audit import check_division
from levelfield.training.precision import check_precision


@dataclass(frozen=True)
class ResolvedStudy:
    """A study with its runs and what they share: catalogs, folds, networks and methods."""

    study: Study
    runs: list[PlannedRun]
    options: Options
    shared: SharedInputs

    def in_use(self) -> AbstractContextManager[None]:
        """Context in which runs, estimates and reports of this process take their inputs from here."""
        return sharing(self.shared)


def resolve(
    study: Study,
    *,
    options: Options | None = None,
    shared: SharedInputs | None = None,
    here: bool = False,
    tested: bool = True,
    download: bool = True,
    progress: Progress = SILENT,
) -> ResolvedStudy:
    """Open the data, plan the runs, and check all that can be checked before training.

    Args:
        study: a parsed study.
        options: device and cache folder of the runs.
        shared: what similar studies, such as trials, have opened before; by default all is opened now.
        here: whether this process will train: then it keeps the networks and methods that were built for the checks.
        tested: whether test classes are required. `train` does not need them.
        download: let timm download weights that are not on this machine; otherwise they are missing.
        progress: progress of the images that are checked for the first time.
    """
    options, kept = options or Options(), here or shared is not None
    shared = SharedInputs() if shared is None else shared
    ranking(study.metrics)
    varied = list(variations(study))
    # wrong settings, and an unknown protocol, are reported before all images are checked
    built = {}
    if not here:
        for varied_study, _ in varied:
            for method_spec in varied_study.methods:
                conditions = method_spec.under(varied_study.conditions)
                built[_built_as(method_spec, conditions)] = build_method(method_spec, conditions)
    check_settings(
        f"protocol '{study.protocol.name}'", study.protocol.settings, protocols.registry.get(study.protocol.name)
    )
    runs = plan(study, varied, digest=lambda data: shared.open(data, progress).digest, device=options.device)
    check_claims(study.claims, list(dict.fromkeys(run.row for run in runs)), study.metrics)
    if not download and (lacking := missing_weights(runs)):
        raise MissingData("\n".join(lacking))
    _check_conditions([run.spec.conditions for run in runs], options.device)
    trunks: dict[tuple[Any, ...], Trunk] = {}
    first_seeds: dict[tuple[Any, ...], PlannedRun] = {}
    for run in runs:
        first_seeds.setdefault((run.row, str(run.variation), run.spec.fold, run.spec.joined), run)
    for run in first_seeds.values():
        inputs = inputs_for(run.spec, options.cache_folder, options.device, shared)
        if tested and not len(inputs.fold.test):
            raise BadSpecification(
                f"The protocol '{run.spec.protocol.name}' has no test classes, so nothing can be compared. Use it with "
                "`levelfield train`."
            )
        c = run.spec.conditions
        network = (c.backbone, c.own_weights, c.cut, c.taps, c.pooling, c.image)  # what a trunk is built from
        trunks[network] = trunks.get(network) or inputs.checked_trunk()
        if here:
            method = build_method(run.spec.method, c, partial(make_method, run.spec, num_classes=inputs.num_classes))
            shared.methods[run.spec.identity] = method
        else:
            method = built[_built_as(run.spec.method, c)]
        _check_method(run, method, inputs.train_labels, trunks[network])
    if not kept:
        shared.release()
    return ResolvedStudy(study, runs, options, shared)


def _built_as(method: MethodSpec, conditions: Conditions) -> tuple[str, int]:
    return method.model_dump_json(), conditions.dim


def _check_conditions(all_conditions: Sequence[Conditions], device: str) -> None:
    """Refuse a device, precision or metric that this machine cannot provide."""
    for precision, processes in {(conditions.precision, conditions.processes) for conditions in all_conditions}:
        check_precision(precision, device)
        if processes > 1:
            backend_for(device, int(os.environ.get("LOCAL_WORLD_SIZE", processes)))
    for metric in {conditions.select for conditions in all_conditions} - {"budget"}:
        ranking([metric])


def _check_method(run: PlannedRun, method: Method, labels: np.ndarray, trunk: Trunk) -> None:
    """Refuse a batch layout that the training classes cannot fill, or a trunk that does not suit the method."""
    conditions = run.spec.conditions
    if not method.trains or run.spec.joined:
        return
    where = "" if run.spec.fold is None else f" in fold {run.spec.fold}"
    try:
        if conditions.head == "dropped" and conditions.dim != trunk.width:
            raise BadSpecification(
                f"head: dropped leaves the {trunk.width} features below the head as the embedding: set dim to "
                f"{trunk.width}, not {conditions.dim}."
            )
        check_division(method, conditions, trunk)
        method.check(trunk, planner(method, labels, conditions))
        for need in run.spec.needs:
            if (folder := Path(need.name).expanduser()).is_dir():  # a teacher of another study
                check_code(folder)
        if run.spec.member is not None:
            method.labels(labels, run.spec.member, run.spec.seed)
    except LevelfieldError as error:
        raise type(error)(f"Method '{run.label}'{where}: {error}") from error
