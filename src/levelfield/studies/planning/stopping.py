"""The number of steps on the user's photos: chosen on validation classes, or a small fixed number if there are few.

The constants come from benchmarks/own_photos.py; see docs/own-photos.md.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levelfield.data import Catalog
from levelfield.errors import LevelfieldError
from levelfield.studies.specification.choices import ProtocolChoice
from levelfield.studies.specification.study import Study
from levelfield.training import Conditions

ENOUGH = 8  # training classes needed to keep some for validation
SHARE, FEWEST, MOST = 0.4, 3, 30  # of the training classes; at least, and at most
GAIN = 0.16  # of map@r, divided by the number of validation classes: a gain on few of them may be a loss on others
FIXED_STEPS = 10  # without validation classes: little more than the warm-up, too short to overfit fewer than 8 classes
# map@r uses all images of a class, so it is less noisy than recall@1 with few validation classes
EARLY: dict[str, Any] = {"select": "map@r", "validate_every": 10, "validate_start": True, "patience": 5}


@dataclass(frozen=True)
class Stopping:
    """How runs on the user's photos stop: the reason in words, another protocol, and changed conditions."""

    text: str
    protocol: ProtocolChoice | None = None
    conditions: dict[str, Any] = field(default_factory=dict)


def choose_stopping(catalog: Catalog, wished: Study, fixed: Set[str]) -> Stopping | None:
    """Choose the number of steps; None if the user has set it. wished: the user's study, with set keys in `fixed`."""
    if {"conditions", "conditions.select", "conditions.selection"} & fixed:
        return None
    protocol, conditions = wished.protocol, wished.conditions
    if protocol.validates:
        return _early(catalog, protocol, conditions, fixed, "the {} validation classes")
    classes = _classes(catalog, protocol.divide(catalog)[0].train)
    if any(key.partition(".")[0] == "protocol" for key in fixed):
        why = "the protocol has no validation classes"
    elif classes < ENOUGH:
        why = f"{classes} training classes are too few to hold some out for validation (at least {ENOUGH} are needed)"
    else:
        share = round(min(max(round(SHARE * classes), FEWEST), MOST) / classes, 3)
        validating = ProtocolChoice(name=protocol.name, **protocol.settings, validation=share)
        judges = f"{{}} of the {classes} training classes, held out for validation"
        try:
            return _early(catalog, validating, conditions, fixed, judges)
        except LevelfieldError:  # one group of classes, single-image classes, or validation classes fixed by the data
            why = "none of the training classes can be held out for validation"
    chosen = _unless(fixed, {"steps": FIXED_STEPS})
    return Stopping(f"Steps: {chosen.get('steps', conditions.steps)} for every run, because {why}.", None, chosen)


def _early(catalog: Catalog, protocol: ProtocolChoice, wished: Conditions, fixed: Set[str], judges: str) -> Stopping:
    """Early stopping on validation classes. With fewer of them the mean is noisier, so a step must gain more."""
    count = _classes(catalog, protocol.divide(catalog)[0].validation)
    chosen = _unless(fixed, EARLY | {"min_delta": round(GAIN / count, 3)})
    conditions = wished.model_copy(update=chosen)
    text = (
        f"Steps: chosen for each run on {judges.format(count)}: {conditions.select} is evaluated at the start and "
        f"every {conditions.validate_every} steps, at most {conditions.steps}. Training stops after more than "
        f"{conditions.patience} checks without a gain of {conditions.min_delta:g}, and the best step (or the start) is "
        "kept. The test classes choose nothing."
    )
    return Stopping(text, protocol, chosen)


def _unless(fixed: Set[str], conditions: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in conditions.items() if f"conditions.{key}" not in fixed}


def _classes(catalog: Catalog, images: np.ndarray) -> int:
    return len(np.unique(catalog.labels[images]))
