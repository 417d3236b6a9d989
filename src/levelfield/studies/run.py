"""One run: from a specification to a folder with a usable model and its figures.

Training and measuring are two things. Somebody's own code trains in a process of its own; what is measured comes from
the stored model, in a process that never ran that code.
"""

from __future__ import annotations

import platform
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from levelfield.files import write_whole
from levelfield.methods import Deviation
from levelfield.studies import spectra
from levelfield.studies.apart import trained_apart
from levelfield.studies.delivered import delivered
from levelfield.studies.ground import Ground, Tell, ground_for
from levelfield.studies.items import test_items
from levelfield.studies.joining import join
from levelfield.studies.measuring import measure
from levelfield.studies.own_code import trains_own_code
from levelfield.studies.run_files import write_training
from levelfield.studies.runs import RunSpec, needed_folder
from levelfield.studies.store import claim
from levelfield.studies.trained import Options, Trained, train_here
from levelfield.training.ledger import settled
from levelfield.trust import as_trusted

__all__ = ["Options", "execute", "versions"]


def execute(
    spec: RunSpec,
    folder: Path,
    metrics: tuple[str, ...],
    *,
    options: Options,
    tell: Tell = lambda text, done, total: None,
) -> None:
    """Train, embed the test images once, measure, write. Continues where an earlier attempt was cut off."""
    with as_trusted(options.trust):
        _execute(spec, folder, metrics, options, tell)


def _execute(spec: RunSpec, folder: Path, metrics: tuple[str, ...], options: Options, tell: Tell) -> None:
    claim(folder, spec, versions())
    if spec.joined:
        needed = [needed_folder(folder, need) for need in spec.needs]
        join(needed, folder, metrics, about={"method": spec.method.label}, under=spec, tell=tell)
        return
    torch.set_num_threads(spec.conditions.threads)
    ground = ground_for(spec, options.cache_folder, options.device)
    if not (folder / "training.json").exists():
        with _trained(spec, ground, folder, metrics, options, tell) as trained:
            _embed(spec, ground, folder, trained, tell)
    tested = ground.fold.test
    measure(folder, ground.catalog.labels[tested] if len(tested) else None, metrics, tell)


def _trained(
    spec: RunSpec, ground: Ground, folder: Path, metrics: tuple[str, ...], options: Options, tell: Tell
) -> AbstractContextManager[Trained]:
    tested = len(ground.fold.test) > 0
    if trains_own_code(spec, folder):
        return trained_apart(spec, folder, metrics, options, tell, tested=tested)
    return nullcontext(train_here(spec, ground, folder, metrics, options, tell, tested=tested))


def _embed(spec: RunSpec, ground: Ground, folder: Path, trained: Trained, tell: Tell) -> None:
    """Embed the test images by the stored model, settle the ledger, and write both down; training.json last."""
    facts = trained.facts
    measured, summary = facts.measured, dict(facts.summary)
    embed = delivered(folder, ground, trained)
    tested = len(ground.fold.test) > 0
    raw = embed(ground.fold.test if tested else ground.fold.train[:1], tell)
    rows = raw
    if facts.refines is not None:
        rows = trained.refined(raw.copy(), test_items(ground).queries if tested else None)
        if rows.dtype != raw.dtype or not np.array_equal(rows, raw, equal_nan=True):
            measured.refined = facts.refines
    measured.dim, measured.bits = rows.shape[1], 1 if (np.abs(rows) == 1).all() else 32
    deviations = settled(facts.said, spec.conditions, measured, trains=facts.trains)
    if facts.own_head:
        deviations.append(Deviation("head", None, "its own code"))
    if tested:
        test_items(ground).write(folder)
        write_whole(folder / "embeddings.npy", lambda file: np.save(file, rows))
    if facts.trains:
        trained_rows = embed(ground.fold.train, tell, "training embeddings")
        summary["rho_train"] = spectra.record(trained_rows, ground.train_labels, folder)
    told = [{**asdict(deviation), "text": deviation.text} for deviation in spec.with_departures(deviations)]
    write_training(folder, {"summary": summary, "measured": asdict(measured), "deviations": told})


def versions() -> dict[str, str]:
    """What the figures were made with."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in ("levelfield", "torch", "timm", "numpy")},
    }
