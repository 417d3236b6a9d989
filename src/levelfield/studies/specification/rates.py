"""A method's settings under conditions with `rates: published`, and the origin of its rates for the ledger.

The rule is in `levelfield.methods._parameters`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levelfield import methods, objectives
from levelfield.methods._parameters import multipliers, published_rates
from levelfield.registry import is_file_reference, is_pml_reference
from levelfield.studies.specification.choices import MethodSpec
from levelfield.training import Conditions


def settings_under(method: MethodSpec, conditions: Conditions) -> dict[str, Any]:
    """The settings, with rescaled multipliers instead of those that a preset or the defaults give.

    >>> settings_under(MethodSpec(name="margin", settings={"beta": 0.6}), Conditions(rates="published", lr=1e-4))
    {'beta': 0.6, 'beta_lr_multiplier': 5.0}
    """
    settings = dict(method.settings)
    for key, (objective, own) in _objectives_of(method, conditions).items():
        filled = multipliers(objective, own, _head_lr(method, conditions))
        settings |= {key: {**(settings.get(key) or {}), **filled}} if key and filled else filled
    return settings


def rate_notes(method: MethodSpec, conditions: Conditions) -> dict[float, str]:
    """The origin of each multiplier that `settings_under` fills in.

    >>> rate_notes(MethodSpec(name="margin"), Conditions(rates="published", lr=1e-4))
    {5.0: 'x50 of 1e-05 as published'}
    """
    published = [published_rates(*inner) for inner in _objectives_of(method, conditions).values()]
    lr = _head_lr(method, conditions)
    return {rate.under(lr): rate.text for rates in published for rate in rates.values()}


def _objectives_of(method: MethodSpec, conditions: Conditions) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """The method's objectives, by the setting that has their settings ("": the method is the objective)."""
    if conditions.rates == "relative" or is_file_reference(method.name) or is_pml_reference(method.name):
        return {}
    if method.name in objectives.names():
        return {"": (method.name, method.settings)}
    return methods.class_of(method.name).wrapped(method.settings)


def _head_lr(method: MethodSpec, conditions: Conditions) -> float:
    return float(method.settings.get("lr") or conditions.lr)
