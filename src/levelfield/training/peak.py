"""Peak memory of a training run: allocated on a CUDA device, or else the maximum resident size of its process on Linux.

None if the system does not measure it or does not allow a reset. The memory of image-decoding processes is not
included.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from pathlib import Path

import torch

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak:
    """Maximum size since creation, or since `begin`, in the memory of `device`.

    >>> peak = Peak()
    >>> peak.bytes is None or peak.bytes > 10**6
    True
    """

    def __init__(self, device: torch.device | None = None) -> None:
        gc.collect()  # exclude the garbage of an earlier run in this process
        self._device = device if device is not None and device.type != "cpu" else None
        self.begin()

    def begin(self) -> None:
        """Restart from the current size."""
        if self._device is None:
            with suppress(AttributeError, OSError):  # not glibc
                ctypes.CDLL(None).malloc_trim(0)  # what an earlier part freed would hide what this one allocates
            try:
                RESET.write_text("5", encoding="ascii")
                self._known = True
            except OSError:  # not Linux, or not allowed: unknown
                self._known = False
        elif self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)

    @property
    def bytes(self) -> int | None:
        if self._device is None:
            lines = STATUS.read_text(encoding="utf-8").splitlines() if self._known else []
            return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)
        return torch.cuda.max_memory_allocated(self._device) if self._device.type == "cuda" else None

    def larger(self, before: int | None) -> int | None:
        """Maximum of this and an earlier part of the run; None if either is unknown."""
        now = self.bytes
        return None if now is None or before is None else max(now, before)
