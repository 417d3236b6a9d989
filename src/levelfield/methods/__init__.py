"""Methods that a study can compare: every objective, and what is more than an objective, one file each.

A new file here is found automatically. It registers a method (`register`), or an option of all methods with an
objective (`option`), such as `student` or `mixup`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Any

import torch

from levelfield import batching, miners, objectives
from levelfield.distributed.ranks import ALONE, Ranks
from levelfield.errors import BadSpecification, nearest, unknown
from levelfield.methods._contract import (
    Assembly,
    Batch,
    Inputs,
    Method,
    Setting,
    TrainingFeatures,
    option,
    options,
    register,
    registry,
)
from levelfield.methods._parameters import Group
from levelfield.methods.deviations import Deviation
from levelfield.objectives._contract import registry as _objectives
from levelfield.papers.presets import preset_row
from levelfield.registry import is_file_reference, is_pml_reference, load_from_file
from levelfield.settings import accepted, check_settings, whole

__all__ = [
    "Assembly", "Batch", "Deviation", "Group", "Inputs", "Method", "Setting", "TrainingFeatures", "create",
    "describe", "names", "option", "register",
]  # fmt: skip


def names() -> list[str]:
    """Everything a study may name under `methods`."""
    return sorted({*registry.names(), *_objectives.names()})


def create(
    name: str,
    *,
    num_classes: int,
    dim: int,
    generator: torch.Generator | None = None,
    ranks: Ranks = ALONE,
    **settings: Any,
) -> Method:
    """The method called `name`: a registered one, an objective, or `my_losses.py:MyLoss`.

    `generator` initialises proxies. A Method gets it, `num_classes` and `dim` only if its constructor takes them.
    ranks: the processes among which `sharded` divides the classes.

    >>> create("contrastive", num_classes=4, dim=8, neg_margin=0.8).trains
    True
    """
    offered: dict[str, Any] = {"num_classes": num_classes, "dim": dim, "generator": generator}
    if (registered := _registered_class(name)) is not None:
        check_settings(f"method '{name}'", settings, registered)
        takes = accepted(registered) or {}
        for key, default in takes.items():
            if default is inspect.Parameter.empty and key not in {*settings, *offered}:
                raise BadSpecification(f"The method '{name}' needs the setting '{key}': {name}: {{{key}: ...}}.")
        return registered(**{key: value for key, value in offered.items() if key in takes}, **settings)
    _check_spelling(name, settings)
    chosen = _options_in(settings)
    for key in chosen:
        for other, reason in options.facts(key).conflicts.items():
            if other in chosen:
                first, second = sorted((key, other))
                raise BadSpecification(f"'{first}' and '{second}' cannot be combined: {reason}.")
    shared = {key: settings[key] for key in _of_every_method() if key in settings}
    known = shared_settings()
    of_objective = {**offered, **{key: value for key, value in settings.items() if key not in known}}
    assembly = Assembly(
        name, of_objective, ranks, lambda **changed: objectives.create(name, **{**of_objective, **changed})
    )
    for key, value in chosen.items():
        assembly = options.get(key)(assembly, value)
    return assembly.make_method(assembly.make_objective(), **shared)


def describe(name: str) -> Any:
    """Description of a method, or the facts of its objective.

    >>> describe("untrained")
    "The trunk's features, unchanged and in full width."
    """
    if name in registry:
        return inspect.getdoc(registry.get(name))
    if name not in _objectives:
        raise unknown("method", name, names(), see="levelfield list methods")
    return objectives.describe(name)


def class_of(name: str, settings: Mapping[str, Any] = MappingProxyType({})) -> type[Method]:
    """The class of the method called `name`. Runs the file of `my_methods.py:Name`."""
    if (registered := _registered_class(name)) is not None:
        return registered
    kinds: list[type[Method]] = [options.facts(key).kind for key in _options_in(settings)]
    return next((kind for kind in kinds if kind is not Method), Method)


def shared_settings() -> tuple[str, ...]:
    """Settings of every method with an objective, whatever the objective."""
    return (*_of_every_method(), *options.names())


def search_ranges(name: str, settings: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Search space of hyperparameters: `(low, high, "linear" or "log")`, or a list of choices.

    Ranges of a miner, a batching or a wrapped objective are prefixed with its key.

    >>> search_ranges("lda"), search_ranges("histogram", {"miner": "distance_weighted"})
    ({'shrinkage': (0.05, 0.9, 'linear')}, {'bins': [11, 33, 65, 129], 'miner.lower': (0.1, 1.0, 'linear')})
    """
    if name in _objectives:
        ranges = dict(objectives.describe(name).search)
        chosen = settings.get("miner") or preset_values(name, settings).get("miner")
        ranges |= _part_ranges("miner", chosen, miners)
    elif is_pml_reference(name):
        ranges = {}
    else:
        declared = getattr(registry.get(name) if name in registry else load_from_file(name), "search", {})
        if not isinstance(declared, Mapping):
            raise BadSpecification(
                f"`search` of '{name}' is {declared!r}; expected ranges: {{'scale': [1, 64, 'log']}}."
            )
        ranges = {str(key): span for key, span in declared.items()}
        inner = settings.get("objective")
        if isinstance(inner, str) and inner in _objectives:
            ranges |= {f"settings.{key}": span for key, span in objectives.describe(inner).search.items()}
    if settings.get("switch"):
        ranges["switch"] = (0.05, 0.8, "linear")  # roth2020, figure 6: 0.1 to 0.5 on all benchmarks
    return ranges | _part_ranges("batching", settings.get("batching"), batching)


def preset_values(name: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings that the preset of an objective stands for; none without one."""
    preset = settings.get("preset")
    return preset_row(name, preset)["settings"] if preset is not None and name in _objectives else {}


def _part_ranges(setting: str, chosen: Any, room: ModuleType) -> dict[str, Any]:
    """Search ranges of the part of a room that `setting` has chosen by name or as `{name: settings}`."""
    name = next(iter(chosen), None) if isinstance(chosen, Mapping) else chosen
    ranges = getattr(room.describe(name), "search", {}) if name in room.names() else {}
    return {f"{setting}.{key}": span for key, span in ranges.items()}


def trains(name: str) -> bool:
    """Whether a method trains. Methods from a file are assumed to train, so that their code is not run."""
    return is_file_reference(name) or class_of(name).trains


def learns_distributions(name: str) -> bool:
    """Whether the method learns a mean and variances of each class, as `hist` does."""
    return name in _objectives and objectives.describe(name).distributions


def requires(name: str, settings: Mapping[str, Any], *, run_code: bool = True) -> tuple[str, ...]:
    """Finished runs that a method needs: labels of the study, or run folders.

    run_code: if False, methods from a file are assumed to need none.

    >>> requires("ensemble", {"of": ["margin", "triplet"]}), requires("margin", {})
    (('margin', 'triplet'), ())
    """
    kind = class_of(name, settings) if run_code or not is_file_reference(name) else Method
    return tuple(map(str, kind.requires(settings)))


def joins_seeds(name: str, settings: Mapping[str, Any]) -> bool:
    """Whether a method joins several seeds of other methods and has no seed of its own."""
    kind = class_of(name)
    return kind.joins and kind.joined_seeds(settings) != "each"


def members(name: str, settings: Mapping[str, Any]) -> int:
    """Number of separately trained networks of a method."""
    takes = accepted(class_of(name, settings)) or {}
    return whole("members", settings.get("members", takes["members"]), least=1) if "members" in takes else 1


def _registered_class(name: str) -> type[Method] | None:
    """The class of a registered method, or of a method in a user's file; None for an objective."""
    if is_pml_reference(name) or name in _objectives:
        return None
    part: Any = load_from_file(name) if is_file_reference(name) else registry.get(name) if name in registry else None
    return part if isinstance(part, type) and issubclass(part, Method) else None


def _of_every_method() -> list[str]:
    return [key for key in accepted(Method) or {} if key != "objective"]


def _options_in(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The options that the settings choose; `mixup: false` chooses none."""
    names = options.names() if settings else ()
    return {key: settings[key] for key in names if settings.get(key) not in (None, False)}


def _check_spelling(name: str, settings: Mapping[str, Any]) -> None:
    """Refuse an unknown method, and a misspelt setting of all methods, which the objective would not recognise."""
    if is_file_reference(name) or is_pml_reference(name):
        return  # a user's objective may have any setting
    if name not in _objectives:
        raise unknown("method", name, names(), see="levelfield list methods")
    facts = _objectives.facts(name) or objectives.describe(name)  # which raises
    known, shared = [*facts.defaults, "miner", "preset"], shared_settings()
    for key in settings:
        if key not in (*known, *shared) and (close := nearest(key, [*known, *shared])) in shared:
            raise BadSpecification(f"The method '{name}' has no setting '{key}'. Did you mean '{close}'?")
