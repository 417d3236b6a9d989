"""Methods that a study can compare. Every objective is a method; further methods are registered here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from levelfield import batching, miners, objectives
from levelfield.distributed.ranks import ALONE, Ranks
from levelfield.errors import BadSpecification, nearest, unknown
from levelfield.methods._contract import Batch, Inputs, Method, Setting, TrainingFeatures, wider_head
from levelfield.methods._parameters import Group
from levelfield.methods.deviations import Deviation
from levelfield.objectives._sharded import sharded
from levelfield.papers.presets import preset_settings
from levelfield.registry import Registry, is_file_reference, is_pml_reference, load_from_file
from levelfield.settings import accepted, check_keywords, whole

__all__ = [
    "Batch",
    "Deviation",
    "Group",
    "Inputs",
    "Method",
    "Setting",
    "TrainingFeatures",
    "create",
    "describe",
    "names",
    "register",
    "wider_head",
]

_registry: Registry[Method] = Registry("method", "methods")
register = _registry.register
"""Decorator: register a `Method` under a name, with its facts."""
_SHARED = ("batch", "batching", "lr", "refine", "trials")
_EXTRA = ("matryoshka", "memory", "mixup", "sharded", "student")
_EVERYBODYS = (*_SHARED, *_EXTRA)  # settings of every method
_APART = {
    ("mixup", "student"): "a teacher has no outputs for mixed images",
    ("mixup", "memory"): "a mixed image has two classes",
    ("matryoshka", "memory"): "the memory holds whole embeddings",
    ("matryoshka", "mixup"): "the loss of a mixed image is defined for whole embeddings",
    ("matryoshka", "student"): "a teacher teaches whole embeddings",
    ("matryoshka", "sharded"): "each size has its own class vectors",
    ("memory", "sharded"): "the memory is compared with images, not with class vectors",
    ("mixup", "sharded"): "a mixed image has two classes",
    ("sharded", "student"): "a student computes the logits of all classes",
}


def names() -> list[str]:
    """Everything a study may name under `methods`.

    >>> {"lda", "margin"} <= set(names())
    True
    """
    return sorted({*_registry.names(), *objectives.names()})


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
    offered = {"num_classes": num_classes, "dim": dim, "generator": generator}
    if name in _registry:
        return _made(name, _registry.get(name), settings, offered)
    if name not in objectives.names() and not is_file_reference(name) and not name.startswith("pml:"):
        raise unknown("method", name, names(), see="levelfield list methods")
    if is_file_reference(name):
        named = load_from_file(name)
        if isinstance(named, type) and issubclass(named, Method):
            return _made(name, named, settings, offered)
    _check_spelling(name, settings)
    shared = {key: settings.pop(key) for key in _SHARED if key in settings}
    extra = {key: settings.pop(key, None) for key in _EXTRA}
    extra = {key: value for key, value in extra.items() if value is not None and value is not False}
    for (one, other), why in _APART.items():
        if one in extra and other in extra:
            raise BadSpecification(f"'{one}' and '{other}' cannot be combined: {why}.")
    if "matryoshka" in extra:
        from levelfield.methods.matryoshka import nested

        return nested(name, extra["matryoshka"], settings, shared, offered)
    if "sharded" in extra:
        return Method(sharded(name, extra["sharded"], {**offered, **settings}, ranks), **shared)
    objective = objectives.create(name, num_classes=num_classes, dim=dim, generator=generator, **settings)
    if "memory" in extra:
        objective = _remembering(objective, extra["memory"], dim)
    if "student" in extra:
        from levelfield.methods.student import Student

        return Student(objective, student=extra["student"], num_classes=num_classes, dim=dim, **shared)
    if "mixup" in extra:
        from levelfield.methods.mixup import Mixed

        return Mixed(objective, mixup=extra["mixup"], **shared)
    return Method(objective, **shared)


def describe(name: str) -> Any:
    """Description of a method, or the facts of its objective.

    >>> describe("untrained")
    "The trunk's features, unchanged and in full width."
    """
    if name not in names():
        raise unknown("method", name, names(), see="levelfield list methods")
    return inspect.getdoc(_registry.get(name)) if name in _registry else objectives.describe(name)


def search_ranges(name: str, settings: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Search space of hyperparameters: `(low, high, "linear" or "log")`, or a list of choices.

    Ranges of a miner, a batching or a wrapped objective are prefixed with its key.

    >>> search_ranges("lda"), search_ranges("histogram", {"miner": "distance_weighted"})
    ({'shrinkage': (0.05, 0.9, 'linear')}, {'bins': [11, 33, 65, 129], 'miner.lower': (0.1, 1.0, 'linear')})
    """
    if name in objectives.names():
        facts = objectives.describe(name)
        found = dict(facts.search)
        usual = facts.miners[0] if "miner" in facts.needs and facts.miners else None
        chosen = settings.get("miner") or preset_values(name, settings).get("miner") or usual
        found |= {f"miner.{key}": span for key, span in _part_ranges(miners.names(), miners.describe, chosen).items()}
    else:  # a method, or a user's class
        found = _declared_ranges(name)
        inner = settings.get("objective")
        if isinstance(inner, str) and inner in objectives.names():
            found |= {f"settings.{key}": span for key, span in objectives.describe(inner).search.items()}
    if settings.get("switch"):
        found["switch"] = (0.05, 0.8, "linear")  # roth2020, figure 6: 0.1 to 0.5 on all benchmarks
    batching_ranges = _part_ranges(batching.names(), batching.describe, settings.get("batching"))
    return found | {f"batching.{key}": span for key, span in batching_ranges.items()}


def preset_values(name: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings that the preset of an objective stands for; none without one.

    >>> preset_values("histogram", {"preset": "roth2020/sop"})
    {'bins': 11}
    """
    preset = settings.get("preset")
    return preset_settings(name, preset) if preset is not None and name in objectives.names() else {}


def _declared_ranges(name: str) -> dict[str, Any]:
    """`search` of a method's class, or of a user's; a loss of pytorch-metric-learning declares none."""
    if is_pml_reference(name):
        return {}
    declared = getattr(_registry.get(name) if name in _registry else load_from_file(name), "search", {})
    if not isinstance(declared, Mapping):
        raise BadSpecification(f"`search` of '{name}' is {declared!r}; expected ranges: {{'scale': [1, 64, 'log']}}.")
    return {str(key): span for key, span in declared.items()}


def _part_ranges(known: list[str], describe: Callable[[str], Any], chosen: Any) -> dict[str, Any]:
    """Search ranges of the part `chosen` by name or as `{name: settings}`."""
    name = next(iter(chosen), None) if isinstance(chosen, Mapping) else chosen
    return dict(getattr(describe(name), "search", {})) if name in known else {}


def shared_settings() -> tuple[str, ...]:
    """Settings of every method, independent of its objective."""
    return _EVERYBODYS


def kind_of(name: str, settings: Mapping[str, Any] = MappingProxyType({})) -> type[Method]:
    """The class of the method called `name`. Runs the file of `my_methods.py:Name`.

    >>> kind_of("margin").__name__, kind_of("softmax", {"student": {"teacher": "big"}}).__name__
    ('Method', 'Student')
    """
    named: Any = _registry.get(name) if name in _registry else load_from_file(name) if is_file_reference(name) else None
    if isinstance(named, type) and issubclass(named, Method):
        return named
    if settings.get("student") is not None:
        from levelfield.methods.student import Student

        return Student
    if settings.get("mixup") not in (None, False):
        from levelfield.methods.mixup import Mixed

        return Mixed
    if settings.get("matryoshka") not in (None, False):
        from levelfield.methods.matryoshka import Matryoshka

        return Matryoshka
    return Method


def trains(name: str) -> bool:
    """Whether a method trains. Methods from a file are assumed to train, so that their code is not run.

    >>> trains("margin"), trains("lda")
    (True, False)
    """
    return is_file_reference(name) or kind_of(name).trains


def learns_distributions(name: str) -> bool:
    """Whether the method learns a mean and variances of each class, as `hist` does.

    >>> learns_distributions("hist"), learns_distributions("lda")
    (True, False)
    """
    return name in objectives.names() and objectives.describe(name).distributions


def requires(name: str, settings: Mapping[str, Any], *, run_code: bool = True) -> tuple[str, ...]:
    """Finished runs that a method needs: labels of the study, or run folders.

    run_code: if False, methods from a file are assumed to need none.

    >>> requires("ensemble", {"of": ["margin", "triplet"]}), requires("margin", {})
    (('margin', 'triplet'), ())
    """
    kind = kind_of(name, settings) if run_code or not is_file_reference(name) else Method
    return tuple(map(str, kind.requires(settings)))


def joins_seeds(name: str, settings: Mapping[str, Any]) -> bool:
    """Whether a method joins several seeds of other methods and has no seed of its own."""
    kind = kind_of(name)
    return kind.joins and kind.joined_seeds(settings) != "each"


def members(name: str, settings: Mapping[str, Any]) -> int:
    """Number of separately trained networks of a method.

    >>> members("margin", {}), members("ensemble", {"of": ["margin", "triplet"]})
    (1, 1)
    """
    takes = accepted(kind_of(name, settings)) or {}
    return whole("members", settings.get("members", takes["members"]), least=1) if "members" in takes else 1


def _check_spelling(name: str, settings: Mapping[str, Any]) -> None:
    """Refuse misspelt method settings, which the objective would not recognise."""
    if name not in objectives.names():
        return  # a user's objective may have any setting
    own = [*objectives.describe(name).defaults, "miner", "preset"]
    for key in settings:
        if key not in (*own, *_EVERYBODYS) and (close := nearest(key, [*own, *_EVERYBODYS])) in _EVERYBODYS:
            raise BadSpecification(f"The method '{name}' has no setting '{key}'. Did you mean '{close}'?")


def _remembering(objective: objectives.Objective, memory: Any, dim: int) -> objectives.Objective:
    """The objective with a cross-batch memory: `memory: true`, its size, or its settings."""

    def made(*, size: int = 1024, start: int = 0) -> objectives.Objective:
        return objectives.CrossBatchMemory(objective, dim=dim, size=size, start=start)

    chosen = {} if memory is True else memory if isinstance(memory, Mapping) else {"size": memory}
    check_keywords("memory", chosen, made)
    return made(**chosen)


def _made(name: str, kind: Callable[..., Method], settings: dict[str, Any], offered: dict[str, Any]) -> Method:
    check_keywords(f"method '{name}'", settings, kind)
    takes = accepted(kind) or {}
    for key, default in takes.items():
        if default is inspect.Parameter.empty and key not in {*settings, *offered}:
            raise BadSpecification(f"The method '{name}' needs the setting '{key}': {name}: {{{key}: ...}}.")
    return kind(**{key: value for key, value in offered.items() if key in takes}, **settings)


def _register_own() -> None:
    from levelfield.methods.baselines import LDA, RandomProjection, Start, Untrained, Whitened
    from levelfield.methods.dreml import Dreml
    from levelfield.methods.drml import Drml
    from levelfield.methods.ensemble import Ensemble

    for name, kind in {
        "untrained": Untrained,
        "random_projection": RandomProjection,
        "start": Start,
        "lda": LDA,
        "whitened": Whitened,
        "dreml": Dreml,
        "drml": Drml,
        "ensemble": Ensemble,
    }.items():
        register(name)(kind)


_register_own()
