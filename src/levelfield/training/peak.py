"""Peak main memory of a training run: the maximum resident size of its process on Linux.

None if the system does not measure it or does not allow a reset. GPU memory and the memory of image-decoding processes
are not included.
"""

from __future__ import annotations

import gc
from pathlib import Path

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak:
    """Maximum resident size since creation, or since `begin`.

    >>> peak = Peak()
    >>> peak.bytes is None or peak.bytes > 10**6
    True
    """

    def __init__(self) -> None:
        gc.collect()  # exclude the garbage of an earlier run in this process
        self._known = _reset()

    def begin(self) -> None:
        """Restart from the current size."""
        self._known = _reset()

    @property
    def bytes(self) -> int | None:
        return _resident_peak() if self._known else None

    def larger(self, before: int | None) -> int | None:
        """Maximum of this and an earlier part of the run; None if either is unknown."""
        now = self.bytes
        return None if now is None or before is None else max(now, before)


def _reset() -> bool:
    """Reset the system's peak to the current size; return whether that worked."""
    try:
        RESET.write_text("5", encoding="ascii")
    except OSError:  # not Linux, or not allowed: unknown
        return False
    return True


def _resident_peak() -> int | None:
    lines = STATUS.read_text(encoding="utf-8").splitlines()
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)
