"""Expand `vary` into one study per combination, and check that each method can be built."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.registry import is_file_reference
from levelfield.studies.specification.study import Study, assign, parse_study

Variation = tuple[tuple[str, Any], ...]  # keys and values of `vary`


def variations(study: Study) -> Iterator[tuple[Study, Variation]]:
    keys = list(study.vary)
    for values in itertools.product(*study.vary.values()):
        content = study.model_dump(mode="json", exclude={"vary"})
        for key, value in zip(keys, values, strict=True):
            assign(content, key, value)
        yield parse_study(content, origin="vary"), tuple(zip(keys, values, strict=True))


def check_methods(study: Study) -> None:
    """Build every method once with two classes, to find a wrong name or setting before training."""
    from levelfield import methods  # which needs torch; everything else about a study file does not

    for varied, _ in variations(study):
        for method in varied.methods:
            try:
                own = method.under(varied.conditions)
                made = methods.create(method.name, num_classes=2, dim=own.dim, **method.settings)
                if method.conditions and methods.class_of(method.name).joins:
                    raise BadSpecification(
                        "It joins finished runs and trains nothing, so it cannot have its own conditions."
                    )
                if own.codes == "binary" and made.refinement is not None:
                    raise BadSpecification(
                        "`refine` and `codes: binary` cannot be combined: refined rows are not binary."
                    )
            except LevelfieldError as error:
                raise type(error)(f"Method '{method.label}': {error}") from error
            except Exception as error:  # user code may raise anything
                if not is_file_reference(method.name):
                    raise
                message = f"Method '{method.label}' cannot be created: {type(error).__name__}: {error}"
                raise BadSpecification(f"{message} (levelfield -v shows where).") from error
