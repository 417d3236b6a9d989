"""Reasons, shared by several figures, why a study cannot have a figure."""

from __future__ import annotations

from levelfield import methods
from levelfield.studies.specification.study import Study


def nothing_trains(study: Study) -> str | None:
    """The reason for figures that need a trained method.

    >>> nothing_trains(Study.model_validate({"data": "emoji", "methods": ["lda"]}))
    'no method of the study trains anything: add one that does, such as margin'
    """
    if any(methods.trains(method.name) for method in study.methods):
        return None
    return "no method of the study trains anything: add one that does, such as margin"
