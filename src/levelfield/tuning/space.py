"""What is searched for one method: its own ranges, and those that the study gives or narrows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levelfield import batching, methods, miners, objectives
from levelfield.errors import BadSpecification, nearest, suggestion
from levelfield.objectives._contract import registry as objective_classes
from levelfield.ranges import Range
from levelfield.registry import is_file_reference, load_from_file
from levelfield.settings import accepted, takes_integers
from levelfield.studies import Study
from levelfield.studies.specification.choices import NOT_OF_ITS_OWN, MethodSpec
from levelfield.studies.specification.methods import settings_under
from levelfield.studies.specification.study import owner
from levelfield.training import Conditions

Space = dict[str, Range]
"""Dotted keys of a method: a setting (`tau`, `miner.lower`) or a condition (`conditions.trunk_lr`)."""
COMMON = "common"
_SETTINGS_TOO = ("batch", "batching", "lr")  # conditions that a method has as settings of its own
_OF_NAMED_PART = ("miner", "batching")  # written as {name: {setting: value}}


def space_of(study: Study, method: MethodSpec) -> Space:
    """The settings to search for `method`. `study.search` narrows, adds or removes (null) ranges, and decides."""
    own = methods.search_ranges(method.name, method.settings)
    ranges = {key: Range.parse(f"{method.name}.{key}", span, whole=_is_whole(method, key)) for key, span in own.items()}
    study_ranges = {}
    for key, written in study.search.items():
        setting = _setting_of(key, study, method)
        if setting is not None and written is None:
            ranges.pop(setting, None)
        elif setting is not None:
            study_ranges[setting] = Range.parse(key, written, whole=_is_whole(method, setting))
    for key in list(ranges):  # `miner` as a whole leaves nothing of `miner.lower`; `vary` sets a varied setting
        if key not in study_ranges and (
            key.partition(".")[0] in study_ranges or f"methods.{method.label}.{key}" in study.vary
        ):
            del ranges[key]
    return ranges | study_ranges


def common_space(study: Study) -> Space:
    """The conditions that are searched once for all methods: `common.lr`."""
    written = {key.removeprefix(f"{COMMON}."): key for key in study.search if key.startswith(f"{COMMON}.")}
    return {name: Range.parse(key, study.search[key], whole=_whole_condition(name)) for name, key in written.items()}


def check_search(study: Study) -> None:
    """Refuse a range of a method, a setting or a condition that does not exist or would have no effect."""
    for key in study.search:
        first, _, rest = key.partition(".")
        whole = next((other for other in study.search if key.startswith(f"{other}.")), None)
        if whole is not None:
            raise BadSpecification(f"search: '{whole}' replaces '{key}': remove one of the two.")
        if f"methods.{key}" in study.vary or (first in (COMMON, "conditions") and f"conditions.{rest}" in study.vary):
            raise BadSpecification(f"search: '{key}' is also in `vary`, which sets its values: remove one of the two.")
        if first in (COMMON, "conditions"):
            _check_condition(key, rest)
            continue
        concerned = [(method, _setting_of(key, study, method)) for method in study.methods]
        if not any(setting for _, setting in concerned):
            known = [*dict.fromkeys(name for m in study.methods for name in (m.label, m.name)), "conditions", COMMON]
            close = nearest(first, known)
            hint = f" Did you mean '{close}.{rest}'?" if close else f" There are: {', '.join(known)}."
            raise BadSpecification(f"search: '{key}' names no method of the study.{hint}")
        for method, setting in concerned:
            if setting is not None:
                _check_setting(key, method, setting)


def applied(method: MethodSpec, values: Mapping[str, Any]) -> MethodSpec:
    """The method with these values of its space.

    >>> applied(MethodSpec(name="triplet"), {"margin": 0.1, "conditions.trunk_lr": 1e-4})
    MethodSpec(name='triplet', label='triplet', settings={'margin': 0.1}, conditions={'trunk_lr': 0.0001})
    """
    for key, value in values.items():
        first, _, rest = key.partition(".")
        if first == "conditions" and rest not in _SETTINGS_TOO:
            method = method.model_copy(update={"conditions": {**method.conditions, rest: value}})
            continue
        if first == "conditions":
            setting = {rest: value}
        elif first in _OF_NAMED_PART and rest:
            name, settings = _named_part(method, first)
            setting = {first: {name: {**settings, rest: value}}}
        elif rest:
            written = method.settings.get(first)
            setting = {first: {**(written if isinstance(written, Mapping) else {}), rest: value}}
        else:
            setting = {key: value}
        method = method.model_copy(update={"settings": {**method.settings, **setting}})
    return method


def _named_part(method: MethodSpec, part: str) -> tuple[str, dict[str, Any]]:
    """Name and settings of the method's miner or batching."""
    settings = {key: value for key, value in method.settings.items() if value is not None}
    written = _values(method.model_copy(update={"settings": settings})).get(part)
    if isinstance(written, str):
        return written, {}
    if isinstance(written, Mapping) and len(written) == 1:
        ((name, settings),) = written.items()
        return str(name), dict(settings or {})
    return "", {}


def _setting_of(key: str, study: Study, method: MethodSpec) -> str | None:
    """Which setting of `method` a key of `search` is about; None if it is about others. A label goes before a name."""
    if key.startswith(f"{COMMON}."):
        return None
    if key.startswith("conditions."):
        idle = key == "conditions.trunk_lr" and study.conditions.cut == "frozen"  # a rate of nothing
        return key if methods.trains(method.name) and not idle else None
    labels = [each.label for each in study.methods]
    label = owner(f"methods.{key}", labels)
    if label is not None:
        return key.removeprefix(f"{label}.") if label == method.label else None
    return key.removeprefix(f"{method.name}.") if key.startswith(f"{method.name}.") else None


def _check_condition(key: str, name: str) -> None:
    if name not in Conditions.model_fields:
        close = nearest(name, Conditions.model_fields)
        hint = f" Did you mean '{key.partition('.')[0]}.{close}'?" if close else " See docs/study-file.md."
        raise BadSpecification(f"search: unknown condition '{name}' in '{key}'.{hint}")
    each = key.startswith("conditions.") and name not in _SETTINGS_TOO
    if name in ("threads", "tuning_trials") or (each and name in NOT_OF_ITS_OWN):
        raise BadSpecification(f"search: '{key}' cannot be searched: {NOT_OF_ITS_OWN[name]}.")


def _check_setting(key: str, method: MethodSpec, setting: str) -> None:
    if is_file_reference(method.name) or method.name.startswith("pml:") or "." in setting:
        return  # its own code decides
    takes = [*_defaults(method), *methods.shared_settings()]
    if setting not in takes:
        hint = suggestion(setting, sorted(takes), otherwise="It takes")
        raise BadSpecification(f"search: the method '{method.name}' has no setting '{setting}' (in '{key}').{hint}")


def _defaults(method: MethodSpec) -> dict[str, Any]:
    if method.name in objectives.names():
        return dict(objectives.describe(method.name).defaults)
    return dict(accepted(methods.class_of(method.name, method.settings)) or {})


def _is_whole(method: MethodSpec, setting: str) -> bool:
    if setting.startswith("conditions."):
        return _whole_condition(setting.removeprefix("conditions."))
    first, _, rest = setting.partition(".")
    if first in _OF_NAMED_PART and rest:
        usual = _part_defaults(first, _named_part(method, first)[0]).get(rest)
        return isinstance(usual, int) and not isinstance(usual, bool)
    inner = method.settings.get("objective") if first == "settings" else None
    name = str(inner or method.name)
    if name in objectives.names():
        kind: Any = objective_classes.get(name)
    else:
        kind = load_from_file(name) if is_file_reference(name) else methods.class_of(method.name, method.settings)
    return takes_integers(kind, rest or setting)


def _part_defaults(part: str, name: str) -> dict[str, Any]:
    """The default settings of a miner or a batching."""
    known, describe = (miners.names(), miners.describe) if part == "miner" else (batching.names(), batching.describe)
    return dict(getattr(describe(name), "defaults", {})) if name in known else {}


def _values(method: MethodSpec) -> dict[str, Any]:
    """The settings of a method as it is created: defaults, then the preset, then what is written."""
    return {**_defaults(method), **methods.preset_values(method.name, method.settings), **method.settings}


def own_values(study: Study, method: MethodSpec, space: Space) -> dict[str, Any]:
    """The values that the study's own settings have in the space, as far as they are known."""
    method = method.model_copy(update={"settings": settings_under(method, method.under(study.conditions))})
    values = {key: _own_value(study, method, key) for key in space}
    return {key: value for key, value in values.items() if value is not None}


def _own_value(study: Study, method: MethodSpec, key: str) -> Any:
    first, _, rest = key.partition(".")
    values = _values(method)
    if first == "conditions":
        own = values.get(rest) if rest in _SETTINGS_TOO else None
        return getattr(method.under(study.conditions), rest) if own is None else own
    if not rest:
        return values.get(key)
    if first in _OF_NAMED_PART:
        name, settings = _named_part(method, first)
        return {**_part_defaults(first, name), **settings}.get(rest)
    inner = values.get(first)
    written = dict(inner) if isinstance(inner, Mapping) else {}
    if first == "settings" and values.get("objective") in objectives.names():  # of a wrapped objective
        written = _values(MethodSpec(name=values["objective"], settings=written))
    return written.get(rest)


def _whole_condition(name: str) -> bool:
    return name in Conditions.model_fields and "int" in str(Conditions.model_fields[name].annotation)
