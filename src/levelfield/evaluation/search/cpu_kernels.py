"""The compiled loops of the block walk. Loops over numbers, and nothing else: they run without Python's lock.

Similarities of a query to its positives stand in a flat array, nearest first: those of query q from `starts[q]` on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from levelfield.evaluation.inputs import Array

FEW = 4  # positives of which the farthest is compared first
SHORT = 64  # so many similarities are sorted by insertion
SEARCH = 256  # from so many positives on, a binary search costs less than as many comparisons


def _compiled(function: Any) -> Any:
    """Compiled at the first call and kept on disk: beside this file or, if that can't be, in the user's cache."""
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no place to keep it at all: every process compiles anew
        return njit(nogil=True)(function)


def _plus_typed(typing: Any, number: Any, flag: Any) -> Any:
    """A number and one more if the flag is set, in 32 bits: in 64 the compiler often fails to use vectors."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.add(arguments[0], builder.zext(arguments[1], arguments[0].type))

    return types.int32(types.int32, types.boolean), build


_plus: Any = intrinsic(_plus_typed)


@_compiled
def gather(
    block: Array,
    height: int,
    width: int,
    row: int,
    column: int,
    first: Array,
    last: Array,
    own: Array,
    offset: Array,
    starts: Array,
    near: Array,
) -> None:
    """Write the similarities to positives that stand in a block: entry (0, 0) is query `row`, gallery row `column`."""
    for line in range(height):
        query = row + line
        left, right = max(first[query], column), min(last[query], column + width)
        for place in range(left, right):
            if place != own[query]:
                at = starts[query] + place - first[query] - (first[query] <= own[query] < place)
                value = block[line, place - column]
                near[at] = value - offset[place] if len(offset) else value


@_compiled
def sort_short(begin: int, end: int, starts: Array, near: Array) -> None:
    """Sort the similarities of each query from `begin` to `end`, nearest first, unless there are more than `SHORT`."""
    for query in range(begin, end):
        own = near[starts[query] : starts[query + 1]]
        if len(own) > SHORT:
            continue
        for place in range(1, len(own)):
            value, at = own[place], place
            while at > 0 and own[at - 1] < value:
                own[at] = own[at - 1]
                at -= 1
            own[at] = value


def sort_long(begin: int, end: int, starts: Array, near: Array) -> None:
    """The same for those with more; queries in a row with equally many at a time. (Compiling a sort takes seconds.)"""
    many = np.diff(starts[begin : end + 1])
    for run in np.split(np.arange(begin, end), np.flatnonzero(np.diff(many)) + 1):
        if many[run[0] - begin] > SHORT:
            lines = near[starts[run[0]] : starts[run[-1] + 1]].reshape(len(run), -1)
            lines.sort(axis=1)
            lines[:] = lines[:, ::-1].copy()


@_compiled
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


@_compiled
def count(
    block: Array,
    height: int,
    width: int,
    row: int,
    column: int,
    first: Array,
    last: Array,
    own: Array,
    offset: Array,
    starts: Array,
    near: Array,
    active: Array,
    reach: Array,
    above: Array,
    level: Array,
) -> None:
    """Add, for every positive, the others of this block that are nearer (`above`) and level. Consumes the block.

    Only the first `active[q]` positives of a query are still asked for: one that so many others precede that its place
    is beyond `reach[q]` is dropped, with all that come after it; the nearest never. Where `SEARCH` or more are asked
    for, both counts are steps: their running sums are the numbers (see `sum_steps`).
    """
    kept, places = np.empty(width + 1, block.dtype), np.empty(64, np.int64)
    for line in range(height):
        query = row + line
        asked = active[query]
        if asked == 0:
            continue
        values = block[line][:width]
        if len(offset):
            for place in range(width):
                values[place] -= offset[column + place]
        # Positives and the query itself are never compared: they fall below everything.
        for place in range(max(first[query] - column, 0), min(last[query] - column, width)):
            values[place] = -np.inf
        if column <= own[query] < column + width:
            values[own[query] - column] = -np.inf
        start = starts[query]
        if asked >= SEARCH:
            part = slice(start, start + asked)
            _search(values, near[part], above[part], level[part], kept, places)
            continue
        reaching = 1
        for step in range(asked):  # the farthest of a few first: if no value reaches it, none reaches the others
            leads = step % FEW == 0
            if not leads and reaching == 0:
                continue
            at = start + (min(step + FEW, asked) if leads else step) - 1
            limit, more, same = near[at], np.int32(0), np.int32(0)
            for place in range(width):  # without a branch: this becomes vector compares
                more = _plus(more, values[place] > limit)
                same = _plus(same, values[place] == limit)
            above[at] += more
            level[at] += same
            if leads:
                reaching = int(more) + int(same)
        while asked > 1 and asked - 1 + above[start + asked - 1] >= reach[query]:
            asked -= 1
        active[query] = asked


@_compiled
def _search(values: Array, near: Array, above: Array, level: Array, kept: Array, places: Array) -> None:
    """Each value is nearer than all positives from some place on: a step up there. `kept`, `places`: room to work in.

    Many values go through the binary search side by side: none waits for the memory that another asks for.
    """
    count, many = len(near), 0
    for value in values:  # those that count at all
        kept[many] = value
        many += value >= near[-1]
    for start in range(0, many, len(places)):
        some, size = min(many - start, len(places)), count
        places[:some] = 0
        while size > 1:
            half = size >> 1
            for one in range(some):
                places[one] += half * (near[places[one] + half - 1] >= kept[start + one])
            size -= half
        for one in range(some):
            value = kept[start + one]
            place = places[one] + (near[places[one]] >= value)  # the first positive that is farther
            if place < count:
                above[place] += 1
            if place > 0 and near[place - 1] == value:
                if place < count:
                    level[place] -= 1
                level[_first_level(near, place - 1)] += 1


@_compiled
def _first_level(near: Array, place: int) -> int:
    """The first positive as near as the one at `place`."""
    low, high = 0, place
    while low < high:
        middle = (low + high) >> 1
        if near[middle] <= near[place]:
            high = middle
        else:
            low = middle + 1
    return low


@_compiled
def sum_steps(starts: Array, active: Array, above: Array, level: Array) -> None:
    """Turn the steps of queries with many positives into numbers."""
    for query in range(len(starts) - 1):
        if active[query] >= SEARCH:
            for at in range(starts[query] + 1, starts[query] + active[query]):
                above[at] += above[at - 1]
                level[at] += level[at - 1]
