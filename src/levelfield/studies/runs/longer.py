"""A longer run goes on from a shorter one: with a constant rate, its first steps have the same bits."""

from __future__ import annotations

from pathlib import Path

from levelfield.errors import Damaged
from levelfield.files.writing import copy_whole
from levelfield.studies.runs.folder.files import TRAINED
from levelfield.studies.runs.folder.store import read_spec
from levelfield.studies.runs.spec import RunSpec, recorded_identity
from levelfield.training.checkpoint import CHECKPOINT
from levelfield.training.log import LOG


def can_go_on(spec: RunSpec) -> bool:
    """Whether no step of the run depends on how many follow: neither its rate nor a choice by validation classes."""
    return spec.conditions.schedule == "constant" and spec.conditions.select == "budget" and not spec.joined


def begin_from_shorter(folder: Path, spec: RunSpec) -> None:
    """Copy the state and the log of the longest finished run of the same conditions with fewer steps, if one kept it.

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
        steps = read_spec(folder).conditions.steps
        conditions = spec.conditions.model_copy(update={"steps": steps})
        same = spec.model_copy(update={"conditions": conditions}).identity == recorded_identity(folder)
    except Damaged:
        return 0
    return steps if same and steps < spec.conditions.steps else 0
