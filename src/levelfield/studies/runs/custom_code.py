"""Detect runs that use custom code: they train in a process of their own, where nothing is evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from levelfield import methods
from levelfield.batching._registry import registry as _BATCHINGS
from levelfield.embedder.networks._registry import networks as _NETWORKS
from levelfield.methods._contract import registry as _METHODS
from levelfield.miners._contract import registry as _MINERS
from levelfield.objectives._contract import registry as _OBJECTIVES
from levelfield.registry import Registry, is_file_reference, is_pml_reference
from levelfield.studies.runs.folder.store import read_spec
from levelfield.studies.runs.spec import RunSpec, needed_folder


def trains_custom_code(spec: RunSpec, folder: Path) -> bool:
    """Whether training this run calls code outside levelfield: `file.py:Name`, `pml:Name` or a plugin's.

    A student loads the method of its teacher, whose run is in the same study as `folder`.
    """
    return names_custom_code(spec) or any(_teacher_is_custom(needed_folder(folder, need)) for need in spec.needs)


def names_custom_code(spec: RunSpec) -> bool:
    """Whether the method, its objective, miner or batching, or the backbone is code outside levelfield."""
    name, settings, conditions = spec.method.name, spec.method.settings, spec.conditions
    return (
        is_custom_method(name)
        or is_custom(conditions.backbone, _NETWORKS)
        or any(is_custom(each, _BATCHINGS) for each in (*_named(settings, "batching"), *(conditions.batching or ())))
        or any(is_custom(each, _MINERS) for each in _named(settings, "miner"))
        or any(
            is_custom(objective, _OBJECTIVES) or any(is_custom(each, _MINERS) for each in _named(inner, "miner"))
            for objective, inner in methods.class_of(name).wrapped(settings).values()
        )
    )


def data_is_custom_code(spec: RunSpec) -> bool:
    """Whether custom code lists the images and classes, or embeds them.

    Such code runs in the process that evaluates the run.
    """
    return any(map(is_file_reference, (spec.data.name, spec.protocol.name, spec.conditions.backbone)))


def is_custom_method(name: str) -> bool:
    """Whether a method is code outside levelfield.

    >>> [is_custom_method(name) for name in ("my_losses.py:MyLoss", "pml:CircleLoss", "margin", "lda")]
    [True, True, False, False]
    """
    return is_custom(name, _OBJECTIVES if name in _OBJECTIVES else _METHODS)


def is_custom(name: str, registry: Registry[Any]) -> bool:
    """Whether the part `name` of a registry is code outside levelfield."""
    return is_file_reference(name) or is_pml_reference(name) or registry.is_plugin(name)


def _named(settings: Mapping[str, Any], key: str) -> Iterator[str]:
    """The part that a setting names: `miner: semihard`, or `miner: {semihard: {mode: closest}}`."""
    choice = settings.get(key)
    yield from [choice] if isinstance(choice, str) else map(str, choice) if isinstance(choice, Mapping) else ()


def _teacher_is_custom(folder: Path) -> bool:
    """Whether the run in `folder`, or one of its members, used custom code. For an ensemble this is assumed."""
    return not (folder / "run.yaml").is_file() or trains_custom_code(read_spec(folder), folder)
