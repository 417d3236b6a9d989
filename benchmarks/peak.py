"""Peak memory of one call in its own process: `python peak.py ours "CUB-like" [--quick]` prints bytes as JSON."""

from __future__ import annotations

from harness import one_thread  # noqa: F401  isort: skip  (before torch and numpy)
import ctypes
import gc
import json
import subprocess
import sys
from pathlib import Path

import torch


def in_a_fresh_process(who: str, name: str, *, quick: bool) -> int:
    """Bytes beyond the memory in use before the call."""
    command = [sys.executable, str(Path(__file__)), who, name, *(["--quick"] if quick else [])]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(json.loads(finished.stdout.splitlines()[-1])["bytes"])


def measured(who: str, name: str, *, quick: bool) -> int:
    """The same in this process, which should be fresh. Linux only."""
    from harness.contenders import CALLS, warm_up
    from harness.samples import QUICK, SHAPES

    torch.set_num_threads(1)
    sample = (QUICK if quick else SHAPES)[name].sample()
    warm_up(who)  # exclude imports, compiled loops and the libraries' own buffers
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # freed but retained memory would hide the call's usage
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak to the current size
    before = _kilobytes("VmRSS")
    CALLS[who](sample)
    return 1024 * (_kilobytes("VmHWM") - before)


def _kilobytes(key: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


if __name__ == "__main__":
    print(json.dumps({"bytes": measured(sys.argv[1], sys.argv[2], quick="--quick" in sys.argv)}))
