"""Devices by name: which one is used, what it is, how many runs it can do at once, and a clock that waits for it.

Torch is imported when a function is called: a command line reads `--device` without it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from levelfield.contexts import holding
from levelfield.errors import BadSpecification, nearest

if TYPE_CHECKING:
    import torch

AUTO = "auto"
VISIBLE = "CUDA_VISIBLE_DEVICES"
_ALSO = {"gpu": "cuda", "nvidia": "cuda", "metal": "mps"}
_KINDS = ("cuda", "mps", "cpu")  # in the order in which `auto` chooses
_REQUESTED: ContextVar[str] = ContextVar("device", default="cpu")


def computing_on(device: str) -> AbstractContextManager[None]:
    """Context in which models of finished runs compute on `device` (`--device`); elsewhere on the CPU."""
    return holding(_REQUESTED, device)


def requested() -> str:
    """The device of `computing_on`, which may be "auto" or not usable: see `usable`."""
    return _REQUESTED.get()


def usable(device: str) -> str:
    """Check that a device is usable and return its name; "auto" is the first of CUDA, MPS and CPU that is here.

    >>> usable("cpu")
    'cpu'
    >>> usable("gpu")
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: There is no device 'gpu'. Did you mean 'cuda'? Usable here: ...cpu...
    """
    import torch

    if device == AUTO:
        return _first_here()
    kind = device.partition(":")[0]
    here = f"Usable here: {', '.join(name for name in _KINDS if _is_here(name))}."
    if kind not in _KINDS:
        close = (_ALSO.get(kind.lower()) or nearest(kind, _KINDS)) if len(device) < 40 else None
        hint = f" Did you mean '{close}'?" if close else ""
        raise BadSpecification(f"There is no device '{device[:40]}'.{hint} {here}")
    if not _is_here(kind):
        reason = "no NVIDIA GPU is visible"
        if kind == "mps" or torch.version.cuda is None:
            reason = f"this PyTorch is built without {kind.upper()}"
        raise BadSpecification(f"The device '{device}' cannot be used here: {reason}. {here}")
    devices = [f"{kind}:{number}" for number in range(torch.cuda.device_count() if kind == "cuda" else 1)]
    if ":" in device and device not in devices:
        raise BadSpecification(f"There is no device '{device[:40]}': this machine has {', '.join(devices)}.")
    try:
        torch.zeros(1, device=device)
    except RuntimeError as error:  # such as an old driver, or a GPU that another process has reserved
        reason = (str(error).splitlines() or ["it is not available"])[0].rstrip(".")
        raise BadSpecification(f"The device '{device}' cannot be used here: {reason}. {here}") from error
    return device


@cache
def _first_here() -> str:
    """The device of "auto"; names it in a line, and how to choose another one if there is one."""
    device = next(name for name in _KINDS if _is_here(name))
    other = ". Another one: --device cpu" if device != "cpu" else ""
    logging.getLogger("levelfield").warning("Device: %s%s", description(device), other)
    return device


def _is_here(name: str) -> bool:
    import torch

    return name == "cpu" or (torch.cuda if name == "cuda" else torch.backends.mps).is_available()


def hardware(device: str | torch.device) -> dict[str, str]:
    """What computes besides the CPU, as run.yaml records it; empty on a CPU."""
    import torch

    kind = torch.device(device)
    if kind.type == "cuda":
        cudnn = str(torch.backends.cudnn.version() or "none")
        return {"gpu": torch.cuda.get_device_name(kind), "cuda": str(torch.version.cuda), "cudnn": cudnn}
    return {} if kind.type == "cpu" else {"gpu": kind.type}


def description(device: str) -> str:
    """A device in one line, such as "cuda (4 x NVIDIA L4)"."""
    import torch

    name = hardware(device).get("gpu", device)
    count = torch.cuda.device_count() if device == "cuda" else 1
    gpus = f"{count} x {name}" if count > 1 else name
    return device if name == device else f"{device} ({gpus})"


def key_of(device: str | torch.device) -> str:
    """What of a device can change the last bits of stored features, which are always computed in float32."""
    import torch

    kind = torch.device(device)
    if kind.type != "cuda":
        return kind.type
    facts = " ".join(f"{name}={value}" for name, value in hardware(kind).items())
    deterministic = " deterministic" if torch.are_deterministic_algorithms_enabled() else ""
    return f"cuda {facts} precision=float32{deterministic}"


def capacity(device: str, processes: int = 1) -> int:
    """How many runs the machine can do at once without sharing a GPU or a core: the meaning of `--jobs 0`.

    processes: of each run.
    """
    if device == "cuda":
        import torch

        return max(1, torch.cuda.device_count() // processes)
    return 1 if device != "cpu" else max(1, (os.cpu_count() or 1) // processes)


def environment_of(slot: int, device: str, processes: int = 1) -> dict[str, str]:
    """Environment of the worker process `slot`, in which "cuda" means its own GPUs, one for each process of a run.

    Empty if there is nothing to distribute: on another device, on a named GPU (`cuda:1`), or with one GPU.
    """
    if device != "cuda":
        return {}
    import torch

    count = torch.cuda.device_count()
    if count <= processes:
        return {}
    named = os.environ.get(VISIBLE, "")
    gpus = named.split(",") if named else list(map(str, range(count)))
    first = slot * processes % (count - count % processes)
    return {VISIBLE: ",".join(gpus[first : first + processes])}


def searched_on(device: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `evaluate` with the embeddings on a CUDA device, where it then searches; unchanged on other devices,
    and if the embeddings are on disk."""
    import numpy as np
    import torch

    rows = arguments["embeddings"]
    if not device.startswith("cuda") or isinstance(rows, np.memmap):
        return dict(arguments)
    return {**arguments, "embeddings": torch.from_numpy(np.ascontiguousarray(rows)).to(device)}


def clock(device: str | torch.device) -> float:
    """`time.perf_counter()` after the device has done all that it was given: kernels run asynchronously."""
    import torch

    kind = torch.device(device).type
    if kind == "cuda":
        torch.cuda.synchronize(device)
    elif kind == "mps":
        torch.mps.synchronize()
    return time.perf_counter()
