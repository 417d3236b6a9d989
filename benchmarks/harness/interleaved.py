"""Interleave measurements in small slices, so that other load on the machine affects all candidates equally."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Sample:
    """Seconds of one step: wall time and CPU time of this process."""

    wall: float
    cpu: float


def clocks() -> tuple[float, float]:
    """Current wall time and CPU time."""
    return time.perf_counter(), time.process_time()


def between(before: tuple[float, float], after: tuple[float, float], steps: int = 1) -> Sample:
    """Time of one of `steps`."""
    return Sample((after[0] - before[0]) / steps, (after[1] - before[1]) / steps)


def keep_freed_memory() -> None:
    """Keep freed memory in the process (glibc; no effect elsewhere).

    Otherwise memory freed by a large lane returns to the system, and small lanes pay for allocating it again.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mmap_threshold, trim_threshold = -3, -1  # constants of malloc.h
        mallopt(mmap_threshold, 2**25)  # the maximum
        mallopt(trim_threshold, 2**31 - 1)


def interleave(lanes: Mapping[str, Callable[[], Sample]], rounds: int) -> dict[str, list[Sample]]:
    """Run every lane once per round, reversing the order each round; one warm-up slice of each first.

    >>> order = []
    >>> def lane(name):
    ...     return lambda: order.append(name) or Sample(1.0, 1.0)
    >>> samples = interleave({"a": lane("a"), "b": lane("b")}, rounds=2)
    >>> "".join(order), len(samples["a"])
    ('ababba', 2)
    """
    for lane in lanes.values():
        lane()
    samples: dict[str, list[Sample]] = {name: [] for name in lanes}
    for number in range(rounds):
        for name in list(lanes)[:: 1 if number % 2 == 0 else -1]:
            samples[name].append(lanes[name]())
    return samples


def take_turns(
    lanes: Mapping[str, Callable[[], Sample]], *, seconds: float, least: int, most: int
) -> dict[str, list[Sample]]:
    """Like `interleave`, for lanes of very different cost: each gets about `seconds`.

    A slow lane takes part in fewer rounds, spread over all of them; no lane in fewer than `least`.

    >>> order = []
    >>> def lane(name, cost):
    ...     return lambda: order.append(name) or Sample(cost, cost)
    >>> samples = take_turns({"a": lane("a", 1.0), "b": lane("b", 5.0)}, seconds=4, least=2, most=9)
    >>> "".join(order), len(samples["a"]), len(samples["b"])
    ('ababaaba', 4, 2)
    """
    warm = {name: lane().wall for name, lane in lanes.items()}
    turns = {name: min(most, max(least, int(seconds / max(cost, 1e-9)))) for name, cost in warm.items()}
    rounds = max(turns.values())
    samples: dict[str, list[Sample]] = {name: [] for name in lanes}
    for number in range(rounds):
        for name in list(lanes)[:: 1 if number % 2 == 0 else -1]:
            if number * turns[name] % rounds < turns[name]:
                samples[name].append(lanes[name]())
    return samples


def best(samples: list[Sample]) -> float:
    """Minimum CPU time of a step, the least disturbed one."""
    return min(sample.cpu for sample in samples)


def ratio(ours: list[Sample], peer: list[Sample], *, clock: str = "wall") -> float:
    """Median over the rounds of ours / peer.

    >>> ratio([Sample(2, 1), Sample(9, 1), Sample(4, 1)], [Sample(1, 1), Sample(1, 1), Sample(2, 1)])
    2.0
    """
    return median(getattr(a, clock) / getattr(b, clock) for a, b in zip(ours, peer, strict=True))


def typical(samples: list[Sample], *, clock: str = "wall") -> float:
    """Median seconds of a step: wall time, or CPU time with `cpu`."""
    return median(getattr(sample, clock) for sample in samples)
