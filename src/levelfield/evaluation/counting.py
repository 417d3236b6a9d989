"""The compiled loops of the block walk. Loops over numbers, and nothing else: they run without Python's lock.

Similarities of a query to its relatives stand in a flat array, nearest first: those of query q from `starts[q]` on.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from levelfield.evaluation.inputs import Array

SEARCH = 400  # from so many relatives on, a binary search costs less than as many comparisons


@njit(cache=True, nogil=True)
def gather(
    block: Array, height: int, width: int, row: int, column: int, first: Array, last: Array, own: Array, offset: Array,
    starts: Array, near: Array,
) -> None:
    """Write the similarities to relatives that stand in a block: entry (0, 0) is query `row`, gallery row `column`."""
    for line in range(height):
        query = row + line
        left, right = max(first[query], column), min(last[query], column + width)
        for place in range(left, right):
            if place != own[query]:
                at = starts[query] + place - first[query] - (first[query] <= own[query] < place)
                value = block[line, place - column]
                near[at] = value - offset[place] if len(offset) else value


@njit(cache=True, nogil=True)
def nearest_first(begin: int, end: int, starts: Array, near: Array) -> None:
    """Sort the similarities of each query from `begin` to `end`."""
    for query in range(begin, end):
        own = near[starts[query] : starts[query + 1]]
        if len(own) > 24:
            own[:] = np.sort(own)[::-1]
            continue
        for place in range(1, len(own)):
            value, at = own[place], place
            while at > 0 and own[at - 1] < value:
                own[at] = own[at - 1]
                at -= 1
            own[at] = value


@njit(cache=True, nogil=True)
def turn(block: Array, height: int, width: int, out: Array) -> None:
    """`out[:width, :height]` becomes the transposed block; 16 columns at a time, one line of cache."""
    for left in range(0, width, 16):
        if left + 16 <= width:
            for line in range(height):
                for step in range(16):
                    out[left + step, line] = block[line, left + step]
        else:
            for line in range(height):
                for place in range(left, width):
                    out[place, line] = block[line, place]


@njit(cache=True, nogil=True)
def count(
    block: Array, height: int, width: int, row: int, column: int, first: Array, last: Array, own: Array, offset: Array,
    starts: Array, near: Array, active: Array, reach: Array, above: Array, level: Array,
) -> None:
    """Add, for every relative, the others of this block that are nearer (`above`) and level. Consumes the block.

    Only the first `active[q]` relatives of a query are still asked for: one that so many others precede that its place
    is beyond `reach[q]` is dropped, with all that come after it; the nearest never. Where `SEARCH` or more are asked
    for, both counts are steps: their running sums are the numbers (see `sum_steps`).
    """
    for line in range(height):
        query = row + line
        asked = active[query]
        if asked == 0:
            continue
        values = block[line, :width]
        if len(offset):
            for place in range(width):
                values[place] -= offset[column + place]
        # Relatives and the query itself are never compared: they fall below everything.
        for place in range(max(first[query] - column, 0), min(last[query] - column, width)):
            values[place] = -np.inf
        if column <= own[query] < column + width:
            values[own[query] - column] = -np.inf
        start = starts[query]
        if asked >= SEARCH:
            _search(values, near[start : start + asked], above[start : start + asked], level[start : start + asked])
            continue
        for at in range(start, start + asked):
            limit, more, same = near[at], 0, 0
            for place in range(width):
                more += values[place] > limit
                same += values[place] == limit
            above[at] += more
            level[at] += same
        while asked > 1 and asked - 1 + above[start + asked - 1] >= reach[query]:
            asked -= 1
        active[query] = asked


@njit(cache=True, nogil=True)
def _search(values: Array, near: Array, above: Array, level: Array) -> None:
    """Each value is nearer than all relatives from some place on: a step up there."""
    count, lowest = len(near), near[-1]
    for value in values:
        if value < lowest:
            continue
        low, high = 0, count  # the first relative that is farther than the value
        while low < high:
            middle = (low + high) >> 1
            if near[middle] < value:
                high = middle
            else:
                low = middle + 1
        if low < count:
            above[low] += 1
        if low > 0 and near[low - 1] == value:
            if low < count:
                level[low] -= 1
            bottom, high = 0, low - 1  # the first relative that is level with it
            while bottom < high:
                middle = (bottom + high) >> 1
                if near[middle] <= value:
                    high = middle
                else:
                    bottom = middle + 1
            level[bottom] += 1


@njit(cache=True, nogil=True)
def sum_steps(starts: Array, active: Array, above: Array, level: Array) -> None:
    """Turn the steps of queries with many relatives into numbers."""
    for query in range(len(starts) - 1):
        if active[query] >= SEARCH:
            for at in range(starts[query] + 1, starts[query] + active[query]):
                above[at] += above[at - 1]
                level[at] += level[at - 1]
