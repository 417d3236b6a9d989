"""How much main memory a run takes while it trains: the largest resident size of its process, as Linux counts it.

Where the system does not count it, or does not let us begin anew, the figure is not known, and None says so. Memory of
a graphics card and of processes that only decode images is not in it.
"""

from __future__ import annotations

import gc
from pathlib import Path

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak:
    """The largest resident size since it was made, or since `begin`.

    >>> peak = Peak()
    >>> peak.bytes is None or peak.bytes > 10**6
    True
    """

    def __init__(self) -> None:
        gc.collect()  # what an earlier run of this process left behind is not this one's
        self._known = _reset()

    def begin(self) -> None:
        """Count from what is there now."""
        self._known = _reset()

    @property
    def bytes(self) -> int | None:
        return _resident_peak() if self._known else None

    def larger(self, before: int | None) -> int | None:
        """The larger of this and what an earlier part of the run took; not known if one of them is not."""
        now = self.bytes
        return None if now is None or before is None else max(now, before)


def _reset() -> bool:
    """Whether the system's count starts again from the present size."""
    try:
        RESET.write_text("5", encoding="ascii")
    except OSError:  # not Linux, or not allowed: then the figure is not known
        return False
    return True


def _resident_peak() -> int | None:
    lines = STATUS.read_text(encoding="utf-8").splitlines()
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)
