"""Peak memory that torch allocates during a call."""

from __future__ import annotations

import os
from collections.abc import Callable

# Set before importing torch, to silence the profiler.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

from torch.profiler import ProfilerActivity, profile


def peak_bytes(call: Callable[[], object]) -> int:
    """Peak allocation during the call, beyond earlier allocations; results count until they are freed."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as taken:
        call()
    events = [event for event in taken.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak
