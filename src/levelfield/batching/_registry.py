"""The batchings by name."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from levelfield.batching.base import Batching
from levelfield.errors import BadSpecification, nearest
from levelfield.registry import Registry, is_file_reference, load_from_file

_BATCHINGS: Registry[Batching] = Registry("batching", "batchings")
register, names, describe = _BATCHINGS.register, _BATCHINGS.names, _BATCHINGS.facts


def create(name: str, labels: Sequence[int] | np.ndarray, *, batch_size: int, **settings: Any) -> Batching:
    """A batching by name (or `my_batches.py:MyBatching`) over `labels`.

    settings: seed=0, batches_per_epoch=None, rank=0, world=1, and the batching's own.

    >>> batches = create("spc", [0, 0, 1, 1, 2, 2], batch_size=4, samples_per_class=2)
    >>> batches.plan(0).shape
    (1, 4)
    """
    make = load_from_file(name) if is_file_reference(name) else _BATCHINGS.get(name)
    parameters = inspect.signature(make).parameters
    open_ended = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    for setting in settings:
        if setting not in parameters and not open_ended:
            own = [key for key in parameters if key not in ("labels", "batch_size")]
            close = nearest(setting, own)
            hint = f" Did you mean '{close}'?" if close else f" It has: {', '.join(own)}."
            raise BadSpecification(f"The batching '{name}' has no setting '{setting}'.{hint}")
    return make(labels, batch_size=batch_size, **settings)
