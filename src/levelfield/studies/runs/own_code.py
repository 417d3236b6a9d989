"""Which runs use somebody's own code: those train in a process of their own, and nothing is measured there."""

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
    """Whether training this run calls code that is not levelfield's: `file.py:Name`, `pml:Name` or a plugin's.

    A student loads the method of its teacher, whose run lies beside that in `folder`.
    """
    return names_own_code(spec) or any(_taught_by_own(needed_folder(folder, need)) for need in spec.needs)


def names_own_code(spec: RunSpec) -> bool:
    """Whether the method itself, or a part of it, is not levelfield's."""
    named = [spec.method.name, *_texts(spec.method.settings), *_texts(spec.conditions.model_dump(mode="json"))]
    return any(map(is_own, named))


def data_is_own_code(spec: RunSpec) -> bool:
    """Whether a function of somebody's own says which images and classes there are, or embeds them.

    Such code runs where the run is measured.
    """
    return any(map(is_file_reference, (spec.data.name, spec.protocol.name, spec.conditions.backbone)))


def is_own(name: str) -> bool:
    """Whether a part of that name is not levelfield's.

    >>> [is_own(name) for name in ("my_losses.py:MyLoss", "pml:CircleLoss", "margin", "adamw")]
    [True, True, False, False]
    """
    known: tuple[Registry[Any], ...] = (_METHODS, _OBJECTIVES, _MINERS, _BATCHINGS, _NETWORKS)
    return is_file_reference(name) or is_pml_reference(name) or any(kind.is_plugin(name) for kind in known)


def _taught_by_own(folder: Path) -> bool:
    """Whether the run there, or one that it joins, was made with own code. An ensemble does not say, so it may be."""
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
