"""Which figures a study can have, decided by the specification alone: nothing is trained, read or imported."""

from __future__ import annotations

from typing import Any

from levelfield import methods
from levelfield.studies.planning.plan import needed_labels
from levelfield.studies.specification.study import Study, owner


def why_not(name: str, study: Study) -> str | None:
    """Why the figure `name` cannot be drawn for the study, and what to change; None if it can.

    >>> study = Study.model_validate({"data": "emoji", "methods": ["margin"]})
    >>> why_not("leaderboard", study), why_not("sweep", study)
    (None, 'nothing varies: give `vary` one key, or two for a heat map, e.g. vary: {conditions.dim: [64, 128]}')
    """
    if name == "sweep":
        return _no_sweep(study)
    if name == "leaderboard":
        return None
    if not any(methods.trains(method.name) for method in study.methods):
        return "no method of the study trains anything: add one that does, such as margin"
    if name == "curves" and not _is_watched(study):
        return (
            "nothing is evaluated during training: set conditions.monitor: test, or protocol.validation: 0.2 "
            "with conditions.select: map@r"
        )
    if name == "distributions" and not any(method.name == "hist" for method in study.methods):
        return "it shows the class distributions learned by `hist`, and `hist` is not among the methods"
    return None


def varied_keys(study: Study) -> int:
    """The number of varied keys that apply to the same method, at most.

    >>> vary = {"methods.margin.beta": [0.6, 1.0], "methods.triplet.margin": [0.1, 0.2]}
    >>> varied_keys(Study.model_validate({"data": "emoji", "methods": ["margin", "triplet"], "vary": vary}))
    1
    """
    labels = [method.label for method in study.methods]
    owners = [owner(key, labels) for key in study.vary]
    return max(
        sum(one in (None, *concerned) for one in owners)
        for concerned in (needed_labels(study.methods, label) for label in labels)
    )


def _no_sweep(study: Study) -> str | None:
    count = varied_keys(study)
    if count == 0:
        return "nothing varies: give `vary` one key, or two for a heat map, e.g. vary: {conditions.dim: [64, 128]}"
    return f"{count} keys vary: a sweep can show one key, or two as a heat map" if count > 2 else None


def _is_watched(study: Study) -> bool:
    """Whether some runs are evaluated during training, on test or validation classes."""
    monitors = _values(study, "conditions.monitor", study.conditions.monitor)
    selects = _values(study, "conditions.select", study.conditions.select)
    return "test" in monitors or any(select != "budget" for select in selects)


def _values(study: Study, key: str, common: Any) -> list[Any]:
    return study.vary.get(key, [common])
