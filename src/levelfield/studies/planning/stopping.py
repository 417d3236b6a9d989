"""How many steps train on somebody's photos: validation classes choose, or a small fixed number where they are few.

The figures behind the constants: docs/own-photos.md, made by benchmarks/own_photos.py.
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

ENOUGH = 8  # training classes from which on some are kept back to validate
SHARE, FEWEST, MOST = 0.4, 3, 30  # of the training classes; at least, and at most
GAIN = 0.16  # of map@r, divided by the number of validation classes: what four of them gain, others may lose
FIXED_STEPS = 10  # where no class validates: hardly more than the warm-up, which fewer than 8 classes do not over-fit
# map@r looks at all images of a class, so it is less noisy than recall@1 with few validation classes
EARLY: dict[str, Any] = {"select": "map@r", "validate_every": 10, "validate_start": True, "patience": 5}


@dataclass(frozen=True)
class Stopping:
    """How a run on somebody's photos ends: changes of protocol and conditions, and why, in words."""

    text: str
    protocol: dict[str, Any] | None = None
    conditions: dict[str, Any] = field(default_factory=dict)


def choose_stopping(catalog: Catalog, wished: Study, fixed: Set[str]) -> Stopping | None:
    """How many steps train; None if the user says it. wished: what the user asks for, by the keys in `fixed`."""
    if {"conditions", "conditions.select", "conditions.selection"} & fixed:
        return None
    protocol, conditions = wished.protocol, wished.conditions
    classes = _classes(catalog, protocol.divide(catalog)[0].train)
    if protocol.validates:
        return _early(catalog, protocol, conditions, fixed, "the {} validation classes")
    own = any(key.partition(".")[0] == "protocol" for key in fixed)
    share = None if own or classes < ENOUGH else _share(catalog, protocol, classes)
    if share is None:
        why = "the protocol keeps no classes back to validate" if own else _too_few(classes)
        chosen = _unless(fixed, {"steps": FIXED_STEPS})
        return Stopping(f"Steps: {chosen.get('steps', conditions.steps)} for every run, because {why}.", None, chosen)
    validating = ProtocolChoice(name=protocol.name, **protocol.settings, validation=share)
    return _early(catalog, validating, conditions, fixed, f"{{}} of the {classes} training classes, kept back for it")


def _share(catalog: Catalog, protocol: ProtocolChoice, classes: int) -> float | None:
    """The share of the training classes to keep back; None where the data does not allow any."""
    share = round(min(max(round(SHARE * classes), FEWEST), MOST) / classes, 3)
    try:
        ProtocolChoice(name=protocol.name, validation=share, **protocol.settings).divide(catalog)
    except LevelfieldError:  # one group of classes, classes of a single image, or a part that the data names itself
        return None
    return share


def _too_few(classes: int) -> str:
    if classes < ENOUGH:
        return f"{classes} training classes are too few to keep some back for validation ({ENOUGH} are needed)"
    return "none of the training classes can be kept back for validation"


def _early(catalog: Catalog, protocol: ProtocolChoice, wished: Conditions, fixed: Set[str], judges: str) -> Stopping:
    """Validation classes choose. The fewer they are, the noisier is their mean, and the more a step has to gain."""
    kept = _classes(catalog, protocol.divide(catalog)[0].validation)
    chosen = _unless(fixed, EARLY | {"min_delta": round(GAIN / kept, 3)})
    made = wished.model_copy(update=chosen)
    text = (
        f"Steps: chosen for each run by {judges.format(kept)}: {made.select} is measured at the start and every "
        f"{made.validate_every} steps, at most {made.steps}. Training ends after more than {made.patience} checks "
        f"without a gain of {made.min_delta:g}, and the best step is kept, the start included. The test classes choose "
        "nothing."
    )
    return Stopping(text, protocol.model_dump(), chosen)


def _unless(fixed: Set[str], conditions: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in conditions.items() if f"conditions.{key}" not in fixed}


def _classes(catalog: Catalog, images: np.ndarray) -> int:
    return len(np.unique(catalog.labels[images]))
