"""Execute one run: from a specification to a folder with a model and its scores.

The scores are those of the stored model. A longer run goes on from a shorter one: with a constant rate, its first steps
have the same bits.
"""

from __future__ import annotations

import platform
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from levelfield.distributed.ranks import current
from levelfield.embedder import Model, load
from levelfield.embedder.devices import hardware
from levelfield.embedder.model import HEADS
from levelfield.errors import Damaged
from levelfield.files.writing import copy_whole, write_whole
from levelfield.methods import Deviation, Method, trains
from levelfield.progress import SILENT, Progress
from levelfield.studies.runs.evaluation import score_run
from levelfield.studies.runs.folder.files import EMBEDDINGS, TRAINED, write_spectra, write_training
from levelfield.studies.runs.folder.items import refined, test_items
from levelfield.studies.runs.folder.store import claim, read_spec
from levelfield.studies.runs.inputs import RunInputs, inputs_for
from levelfield.studies.runs.joined.join import join
from levelfield.studies.runs.machine import bits, machine
from levelfield.studies.runs.setup import setting_of
from levelfield.studies.runs.several_processes import in_new_processes, train_together
from levelfield.studies.runs.spec import RunSpec, needed_folder, recorded_identity
from levelfield.studies.runs.training import Options, Task, Trained, computing, train_run, trained_before
from levelfield.training.checkpoint import CHECKPOINT
from levelfield.training.ledger import declared, forbid_other_optimisers, settle
from levelfield.training.log import LOG
from levelfield.training.precision import same_bits

__all__ = ["Options", "execute", "versions"]

LIBRARIES = ("levelfield", "torch", "torchvision", "timm", "numpy", "pillow")  # that affect bits


def execute(task: Task, progress: Progress = SILENT) -> None:
    """Train, embed the test images once, evaluate, write. Continues an interrupted attempt."""
    spec = task.spec
    together = spec.conditions.processes > 1 and not spec.joined and trains(spec.method.name)
    if together and current().size == 1:
        in_new_processes(task, _execute, progress)
    else:
        _execute(task, progress)


def _execute(task: Task, progress: Progress) -> None:
    spec, folder, metrics, options = task.spec, task.folder, task.metrics, task.options
    with computing(task):
        claim(folder, spec, machine_of(spec, options.device), home=options.home)
        if spec.joined:
            needed = [needed_folder(folder, need) for need in spec.needs]
            join(needed, folder, metrics, about={"method": spec.method.label}, under=spec, progress=progress)
            return
        inputs = inputs_for(spec, options.cache_folder, options.device)
        if not (folder / TRAINED).exists():
            _write(task, inputs, _train(task, inputs, progress), progress)
        images = inputs.fold.test
        score_run(folder, inputs.catalog.labels[images] if len(images) else None, metrics, progress, options.device)


def _train(task: Task, inputs: RunInputs, progress: Progress) -> Trained:
    spec, folder = task.spec, task.folder
    if spec.weights_from is not None:
        return trained_before(spec, inputs, folder, needed_folder(folder, spec.weights_from))
    begin_from_shorter(folder, spec)
    if spec.conditions.processes > 1 and trains(spec.method.name):
        return train_together(task, inputs, progress)
    return train_run(task, inputs, progress)


def can_go_on(spec: RunSpec) -> bool:
    """Whether no step of the run depends on how many follow: neither its rate nor a choice by validation classes."""
    return spec.conditions.schedule == "constant" and spec.conditions.select == "budget" and not spec.joined


def begin_from_shorter(folder: Path, spec: RunSpec) -> None:
    """Copy the state and the log of the longest finished run of the same conditions with fewer steps, if one kept it. A
    run whose start weights have another share trains the same steps.

    folder: of the run, which has not begun.
    """
    if not can_go_on(spec) or (folder / CHECKPOINT).exists():
        return
    shorter = {steps: path for path in folder.parent.iterdir() if (steps := _steps_before(path, spec))}
    if shorter:
        before = shorter[max(shorter)]
        if (before / LOG).exists():
            copy_whole(before / LOG, folder / LOG)
        copy_whole(before / CHECKPOINT, folder / CHECKPOINT)  # last: a state without its log would be resumed


def _steps_before(folder: Path, spec: RunSpec) -> int:
    """The steps of a run that is a beginning of `spec`; 0 if it is none, or did not keep its state."""
    if not all((folder / name).exists() for name in (TRAINED, CHECKPOINT)):
        return 0
    try:
        before = read_spec(folder).conditions
        trained = {"steps": before.steps, "start_share": before.start_share}
        conditions = spec.conditions.model_copy(update=trained)
        same = spec.model_copy(update={"conditions": conditions}).identity == recorded_identity(folder)
    except Damaged:
        return 0
    return before.steps if same and before.steps <= spec.conditions.steps else 0


def _write(task: Task, inputs: RunInputs, trained: Trained, progress: Progress) -> None:
    """Embed the test images with the stored model, settle the ledger and write the results; training.json last."""
    spec, folder, fold, method = task.spec, task.folder, inputs.fold, trained.method
    measured, summary = trained.measured, {**trained.summary, **inputs.network_cost}
    custom_head = None if isinstance(trained.head, (nn.Identity, *HEADS.values())) else trained.head
    model = load(folder, device=inputs.device, head=custom_head)
    assert isinstance(model, Model)
    items = test_items(inputs) if len(fold.test) else None
    setting = replace(setting_of(method, spec.conditions, inputs.width, spec.training_seed), tested=items is not None)
    declaration = declared(method, spec.conditions, setting)
    raw = rows = inputs.embed(model.embedder, fold.train[:1] if items is None else fold.test, progress)
    if type(method).refine is not Method.refine or (items is not None and method.refinement is not None):
        with forbid_other_optimisers([]):
            rows = refined(method, raw.copy(), None if items is None else items.queries)
        if rows.dtype != raw.dtype or not np.array_equal(rows, raw, equal_nan=True):
            measured.refined = method.refines
    measured.dim, measured.bits = rows.shape[1], 1 if (np.abs(rows) == 1).all() else 32
    deviations = settle(declaration, spec.conditions, measured, trains=method.trains)
    if custom_head is not None:  # only the method's code can create it
        deviations.append(Deviation("head", None, "its own code"))
    if items is not None:
        items.write(folder)
        write_whole(folder / EMBEDDINGS, lambda file: np.save(file, rows))
    if method.trains and spec.conditions.head != "dropped":  # the loss sees no such rows
        training_rows = inputs.embed(model.embedder, fold.train, progress, "training embeddings")
        summary["rho_train"] = write_spectra(folder, training_rows, inputs.train_labels)
    summary["computed_by"] = list(bits(machine_of(spec, inputs.device)))
    entries = [{**asdict(deviation), "text": deviation.text} for deviation in spec.with_deviations(deviations)]
    write_training(folder, {"summary": summary, "measured": asdict(measured), "deviations": entries})
    if not (task.options.keep_state and can_go_on(spec)):
        (folder / CHECKPOINT).unlink(missing_ok=True)  # two to three times the model


def machine_of(spec: RunSpec, device: str) -> dict[str, Any]:
    """Versions, machine and device of a run, and whether its bits can be expected again."""
    steady = {} if same_bits(spec.conditions.deterministic, device) else {"bits": "can differ"}
    return {"versions": versions(), "machine": {**machine(), **hardware(device), **steady}}


def versions() -> dict[str, str]:
    """Versions of the software that computed the scores."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}
