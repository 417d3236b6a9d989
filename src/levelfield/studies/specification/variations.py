"""Expand `vary` into one study per combination, and build methods to check them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.registry import is_file_reference
from levelfield.studies.specification.choices import MethodSpec
from levelfield.studies.specification.study import Study, assign, parse_study
from levelfield.training.conditions import Conditions

if TYPE_CHECKING:  # which needs torch; everything else about a study file does not
    from levelfield.methods import Method

Variation = tuple[tuple[str, Any], ...]  # keys and values of `vary`


def variations(study: Study) -> Iterator[tuple[Study, Variation]]:
    """The study for each combination of its varied values; itself if nothing varies."""
    if not study.vary:
        yield study, ()
        return
    keys = list(study.vary)
    for values in itertools.product(*study.vary.values()):
        content = study.model_dump(mode="json", exclude={"vary"})
        for key, value in zip(keys, values, strict=True):
            assign(content, key, value)
        yield parse_study(content, origin="vary"), tuple(zip(keys, values, strict=True))


def build_method(method: MethodSpec, conditions: Conditions, build: Callable[[], Method] | None = None) -> Method:
    """Build a method, to find a wrong name or setting before training.

    conditions: its own, see `MethodSpec.under`. build: by default with two classes.
    """
    from levelfield import methods

    try:
        build = build or (lambda: methods.create(method.name, num_classes=2, dim=conditions.dim, **method.settings))
        built = build()
        if method.conditions and methods.class_of(method.name).joins:
            raise BadSpecification("It joins finished runs and trains nothing, so it cannot have its own conditions.")
        if conditions.codes == "binary" and built.refinement is not None:
            raise BadSpecification("`refine` and `codes: binary` cannot be combined: refined rows are not binary.")
    except LevelfieldError as error:
        raise type(error)(f"Method '{method.label}': {error}") from error
    except Exception as error:  # user code may raise anything
        if not is_file_reference(method.name):
            raise
        message = f"Method '{method.label}' cannot be created: {type(error).__name__}: {error}"
        raise BadSpecification(f"{message} (levelfield -v shows where).") from error
    return built
