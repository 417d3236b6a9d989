"""Devices by name; the error for an unusable device lists the usable ones."""

from __future__ import annotations

import torch

from levelfield.errors import BadSpecification, nearest

_ALSO = {"gpu": "cuda", "nvidia": "cuda", "metal": "mps"}
_KNOWN = ("cpu", "cuda", "mps")


def usable(device: str) -> str:
    """Check that a device is usable and return its name.

    >>> usable("cpu")
    'cpu'
    >>> usable("gpu")
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: There is no device 'gpu'. Did you mean 'cuda'? Usable here: cpu...
    """
    kind = device.partition(":")[0]
    try:
        if kind == "meta":
            raise RuntimeError("it cannot compute")
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        here = ", ".join(name for name in _KNOWN if _is_here(name))
        if kind in _KNOWN:
            reason = str(error).splitlines()[0].rstrip(".") if str(error) else "it is not available"
            told = f"The device '{device}' cannot be used here: {reason}. Usable here: {here}."
            raise BadSpecification(told) from error
        close = _ALSO.get(kind.lower()) or nearest(kind, _KNOWN) if len(device) < 40 else None
        hint = f" Did you mean '{close}'?" if close else ""
        raise BadSpecification(f"There is no device '{device[:40]}'.{hint} Usable here: {here}.") from error
    return device


def _is_here(name: str) -> bool:
    return {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}[name]
