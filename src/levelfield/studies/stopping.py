"""How many steps train on somebody's photos: validation classes choose, or a small fixed number where they are few.

The figures behind the constants: docs/own-photos.md, made by benchmarks/own_photos.py.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levelfield.data import Catalog
from levelfield.errors import LevelfieldError
from levelfield.studies.choices import ProtocolChoice

ENOUGH = 8  # training classes from which on some are kept back to validate
SHARE, FEWEST, MOST = 0.4, 3, 30  # of the training classes; at least, and at most
GAIN = 0.04  # of map@r that one validation class would have to show
FIXED_STEPS = 10  # where no class validates: hardly more than the warm-up, which fewer than 8 classes do not over-fit
# map@r looks at all images of a class, so it is less noisy than recall@1 with few validation classes
EARLY: dict[str, Any] = {"select": "map@r", "validate_every": 10, "validate_start": True, "patience": 2}


@dataclass(frozen=True)
class Stopping:
    """How a run on somebody's photos ends: changes of protocol and conditions, and why, in words."""

    text: str
    protocol: dict[str, Any] | None = None
    conditions: dict[str, Any] = field(default_factory=dict)


def choose_stopping(catalog: Catalog, protocol: ProtocolChoice, fixed: Set[str], steps: int) -> Stopping | None:
    """How many steps train; None if the user says it. steps: the most. fixed: keys that the user sets."""
    if {"conditions", "conditions.select", "conditions.selection"} & fixed:
        return None
    classes = _classes(catalog, protocol.divide(catalog)[0].train)
    if protocol.validates:
        return _early(catalog, protocol, fixed, steps, "the {} validation classes")
    own = any(key.partition(".")[0] == "protocol" for key in fixed)
    share = None if own or classes < ENOUGH else _share(catalog, protocol, classes)
    if share is None:
        why = "the protocol keeps no classes back to validate" if own else _too_few(classes)
        chosen = _unless(fixed, {"steps": FIXED_STEPS})
        return Stopping(f"Steps: {chosen.get('steps', steps)} for every run, because {why}.", None, chosen)
    validating = ProtocolChoice(name=protocol.name, **protocol.settings, validation=share)
    return _early(catalog, validating, fixed, steps, f"{{}} of the {classes} training classes, kept back for it")


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


def _early(catalog: Catalog, protocol: ProtocolChoice, fixed: Set[str], steps: int, judges: str) -> Stopping:
    """Validation classes choose. The fewer they are, the more a later step has to gain: their mean is as noisy."""
    kept = _classes(catalog, protocol.divide(catalog)[0].validation)
    chosen = EARLY | {"min_delta": round(GAIN / math.sqrt(kept), 3)}
    text = (
        f"Steps: chosen for each run by {judges.format(kept)}: {chosen['select']} is measured before the first and "
        f"after every {chosen['validate_every']} steps, at most {steps}; training ends at the third check in a row "
        f"without a gain of {chosen['min_delta']}, and the best step is kept, which may be the start. The test classes "
        "choose nothing."
    )
    return Stopping(text, protocol.model_dump(), _unless(fixed, chosen))


def _unless(fixed: Set[str], conditions: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in conditions.items() if f"conditions.{key}" not in fixed}


def _classes(catalog: Catalog, images: np.ndarray) -> int:
    return len(np.unique(catalog.labels[images]))
