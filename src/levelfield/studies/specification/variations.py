"""The studies that `vary` multiplies a study into, and a check that each of their methods can be made."""

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
    """Build every method once with two classes, so that a wrong name or setting is found before anything trains."""
    from levelfield import methods  # which needs torch; everything else about a study file does not

    for varied, _ in variations(study):
        for method in varied.methods:
            try:
                own = method.under(varied.conditions)
                made = methods.create(method.name, num_classes=2, dim=own.dim, **method.settings)
                if method.conditions and methods.kind_of(method.name).joins:
                    raise BadSpecification("It joins finished runs and trains nothing: no conditions are its own.")
                if own.codes == "binary" and made.refinement is not None:
                    raise BadSpecification("Refined rows are numbers: `refine` and `codes: binary` exclude each other.")
            except LevelfieldError as error:
                raise type(error)(f"Method '{method.label}': {error}") from error
            except Exception as error:  # somebody's own code may raise anything
                if not is_file_reference(method.name):
                    raise
                told = f"Method '{method.label}' cannot be made: {type(error).__name__}: {error}"
                raise BadSpecification(f"{told} (levelfield -v shows where).") from error
