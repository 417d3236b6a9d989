"""Execute one run: from a specification to a folder with a model and its scores.

Training and evaluation are separate. User code trains in a process of its own; the stored model is evaluated in a
process that never ran that code.
"""

from __future__ import annotations

import platform
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from levelfield.data.decoders import decoding
from levelfield.embedder.devices import hardware
from levelfield.files.writing import write_whole
from levelfield.methods import Deviation, trains
from levelfield.progress import SILENT, Progress
from levelfield.studies.runs.custom_code import trains_custom_code
from levelfield.studies.runs.delivered import delivered
from levelfield.studies.runs.evaluation import score_run
from levelfield.studies.runs.folder import spectra
from levelfield.studies.runs.folder.files import write_training
from levelfield.studies.runs.folder.items import test_items
from levelfield.studies.runs.folder.store import claim
from levelfield.studies.runs.inputs import RunInputs, inputs_for
from levelfield.studies.runs.joined.join import join
from levelfield.studies.runs.machine import bits, machine
from levelfield.studies.runs.own_process import trained_apart
from levelfield.studies.runs.several_processes import trained_together
from levelfield.studies.runs.spec import RunSpec, needed_folder
from levelfield.studies.runs.training import Options, Task, Trained, TrainingFacts, train_here, trained_before
from levelfield.training.checkpoint import CHECKPOINT
from levelfield.training.ledger import settled
from levelfield.training.precision import numerics, same_bits
from levelfield.trust import as_trusted

__all__ = ["Options", "execute", "versions"]

LIBRARIES = ("levelfield", "torch", "torchvision", "timm", "numpy", "pillow")  # that affect bits


def execute(
    spec: RunSpec,
    folder: Path,
    metrics: tuple[str, ...],
    *,
    options: Options,
    progress: Progress = SILENT,
) -> None:
    """Train, embed the test images once, evaluate, write. Continues an interrupted attempt."""
    with as_trusted(options.trust), decoding(options.workers), numerics(spec.conditions, options.device):
        _execute(Task(spec, folder, metrics, options), progress)


def _execute(task: Task, progress: Progress) -> None:
    spec, folder, metrics, options = task.spec, task.folder, task.metrics, task.options
    claim(folder, spec, machine_of(spec, options.device), home=options.home)
    if spec.joined:
        needed = [needed_folder(folder, need) for need in spec.needs]
        join(needed, folder, metrics, about={"method": spec.method.label}, under=spec, progress=progress)
        return
    torch.set_num_threads(spec.conditions.threads)
    inputs = inputs_for(spec, options.cache_folder, options.device)
    if not (folder / "training.json").exists():
        with _training(task, inputs, progress) as trained:
            tested = _test(folder, inputs, trained, progress)
        _write(spec, inputs, folder, tested)  # the training process has ended
    images = inputs.fold.test
    score_run(folder, inputs.catalog.labels[images] if len(images) else None, metrics, progress, options.device)


def _training(task: Task, inputs: RunInputs, progress: Progress) -> AbstractContextManager[Trained]:
    spec, folder, tested = task.spec, task.folder, len(inputs.fold.test) > 0
    if spec.trained_by is not None:
        before = needed_folder(folder, spec.trained_by)
        return nullcontext(trained_before(spec, inputs, folder, before, tested=tested))
    if spec.conditions.processes > 1 and trains(spec.method.name):
        return trained_together(task, inputs, progress, tested=tested)
    if trains_custom_code(spec, folder):
        return trained_apart(task, progress, tested=tested)
    return nullcontext(train_here(task, inputs, progress, tested=tested))


@dataclass(frozen=True)
class _Tested:
    """Embeddings by the stored model."""

    facts: TrainingFacts
    rows: np.ndarray
    training_rows: np.ndarray | None


def _test(folder: Path, inputs: RunInputs, trained: Trained, progress: Progress) -> _Tested:
    """Embed the test images with the stored model."""
    facts, fold = trained.facts, inputs.fold
    embed = delivered(folder, inputs, trained)
    tested = len(fold.test) > 0
    raw = embed(fold.test if tested else fold.train[:1], progress)
    rows = raw
    if facts.refines is not None:
        rows = trained.refined(raw.copy(), test_items(inputs).queries if tested else None)
        if rows.dtype != raw.dtype or not np.array_equal(rows, raw, equal_nan=True):
            facts.measured.refined = facts.refines
    training_rows = embed(fold.train, progress, "training embeddings") if facts.trains else None
    return _Tested(facts, rows, training_rows)


def _write(spec: RunSpec, inputs: RunInputs, folder: Path, tested: _Tested) -> None:
    """Settle the ledger and write the results; training.json last."""
    facts, rows = tested.facts, tested.rows
    measured, summary = facts.measured, {**facts.summary, **inputs.network_cost}
    measured.dim, measured.bits = rows.shape[1], 1 if (np.abs(rows) == 1).all() else 32
    deviations = settled(facts.deviations, spec.conditions, measured, trains=facts.trains)
    if facts.own_head:
        deviations.append(Deviation("head", None, "its own code"))
    if len(inputs.fold.test):
        test_items(inputs).write(folder)
        write_whole(folder / "embeddings.npy", lambda file: np.save(file, rows))
    if tested.training_rows is not None:
        summary["rho_train"] = spectra.record(tested.training_rows, inputs.train_labels, folder)
    summary["computed_by"] = list(bits(machine_of(spec, inputs.device)))
    entries = [{**asdict(deviation), "text": deviation.text} for deviation in spec.with_deviations(deviations)]
    write_training(folder, {"summary": summary, "measured": asdict(measured), "deviations": entries})
    (folder / CHECKPOINT).unlink(missing_ok=True)  # two to three times the model; nothing resumes a complete training


def machine_of(spec: RunSpec, device: str) -> dict[str, Any]:
    """Versions, machine and device of a run, and whether its bits can be expected again."""
    described = described_machine()
    steady = {} if same_bits(spec.conditions.deterministic, device) else {"bits": "can differ"}
    return {**described, "machine": {**described["machine"], **hardware(device), **steady}}


def described_machine() -> dict[str, Any]:
    """Versions and machine, as run.yaml records them."""
    return {"versions": versions(), "machine": machine()}


def versions() -> dict[str, str]:
    """Versions of the software that computed the scores."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
    }
