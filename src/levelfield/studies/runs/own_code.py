"""Detect runs that use user code: they train in a process of their own, where nothing is evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from levelfield.batching._registry import _BATCHINGS
from levelfield.embedder.networks._registry import networks as _NETWORKS
from levelfield.methods import _registry as _METHODS
from levelfield.miners._contract import _registry as _MINERS
from levelfield.objectives._contract import registry as _OBJECTIVES
from levelfield.registry import Registry, is_file_reference, is_pml_reference
from levelfield.studies.runs.folder.store import read_spec
from levelfield.studies.runs.spec import RunSpec, needed_folder


def trains_own_code(spec: RunSpec, folder: Path) -> bool:
    """Whether training this run calls code outside levelfield: `file.py:Name`, `pml:Name` or a plugin's.

    A student loads the method of its teacher, whose run is in the same study as `folder`.
    """
    return names_own_code(spec) or any(_taught_by_own(needed_folder(folder, need)) for need in spec.needs)


def names_own_code(spec: RunSpec) -> bool:
    """Whether the method, or a part of it, is code outside levelfield."""
    named = [spec.method.name, *_texts(spec.method.settings), *_texts(spec.conditions.model_dump(mode="json"))]
    return any(map(is_own, named))


def data_is_own_code(spec: RunSpec) -> bool:
    """Whether user code lists the images and classes, or embeds them.

    Such code runs in the process that evaluates the run.
    """
    return any(map(is_file_reference, (spec.data.name, spec.protocol.name, spec.conditions.backbone)))


def is_own(name: str) -> bool:
    """Whether `name` refers to code outside levelfield.

    >>> [is_own(name) for name in ("my_losses.py:MyLoss", "pml:CircleLoss", "margin", "adamw")]
    [True, True, False, False]
    """
    known: tuple[Registry[Any], ...] = (_METHODS, _OBJECTIVES, _MINERS, _BATCHINGS, _NETWORKS)
    return is_file_reference(name) or is_pml_reference(name) or any(kind.is_plugin(name) for kind in known)


def _taught_by_own(folder: Path) -> bool:
    """Whether the run in `folder`, or one of its members, used user code. For an ensemble this is assumed."""
    return not (folder / "run.yaml").is_file() or trains_own_code(read_spec(folder), folder)


def _texts(value: Any) -> Iterator[str]:
    """Every text in plain data, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from (*_texts(key), *_texts(entry))
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _texts(entry)
