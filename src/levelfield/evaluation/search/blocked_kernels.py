"""Compiled loops of the block search. They only process numbers, so they release the GIL.

Similarities to positives are stored in a flat array, nearest first: those of query q begin at `starts[q]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from levelfield.evaluation.inputs import Array
from levelfield.evaluation.search.compiling import compiled, import_numba

POSITIVES_AT_ONCE = 4  # the farthest of them is compared first
SEARCH = 256  # from this many positives, use binary search


def _plus_typed(typing: Any, number: Any, flag: Any) -> Any:
    """Increment if the flag is set, in 32 bits: with 64 bits the compiler often fails to vectorise."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.add(arguments[0], builder.zext(arguments[1], arguments[0].type))

    types = import_numba().types
    return types.int32(types.int32, types.boolean), build


_plus: Any = import_numba().extending.intrinsic(_plus_typed)


@compiled
def gather(block: Array, height: int, width: int, row: int, column: int, positives: Any, tables: Any) -> None:
    """Copy the similarities to positives out of a block; entry (0, 0) is query `row`, gallery row `column`.

    positives, tables: see `count`.
    """
    first, last, itself, offset = positives
    starts, near = tables[0], tables[1]
    for line in range(height):
        query = row + line
        left, right = max(first[query], column), min(last[query], column + width)
        for position in range(left, right):
            if position != itself[query]:
                at = starts[query] + position - first[query] - (first[query] <= itself[query] < position)
                value = block[line, position - column]
                near[at] = value - offset[position] if len(offset) else value


@compiled
def turn(block: Array, height: int, width: int, out: Array) -> None:
    """Transpose the block into `out[:width, :height]`; 16 columns at a time, one cache line."""
    for left in range(0, width, 16):
        if left + 16 <= width:
            for line in range(height):
                for step in range(16):
                    out[left + step, line] = block[line, left + step]
        else:
            for line in range(height):
                for position in range(left, width):
                    out[position, line] = block[line, position]


@compiled
def count(block: Array, height: int, width: int, row: int, column: int, positives: Any, tables: Any) -> None:
    """For every positive, count the other rows of this block that are nearer (`above`) or tied (`level`). Consumes the
    block.

    positives: (first, last, itself, offset) of an `Arrangement`. tables: (starts, near, active, reach, above, level).

    Only the first `active[q]` positives of a query are still counted: a positive whose rank exceeds `reach[q]` is
    dropped together with all later ones, except the nearest. With `SEARCH` or more positives, both counts are stored as
    steps, whose running sums are the counts (see `sum_steps`).
    """
    first, last, itself, offset = positives
    starts, near, active, reach, above, level = tables
    kept, positions = np.empty(width + 1, block.dtype), np.empty(64, np.int64)
    for line in range(height):
        query = row + line
        left = active[query]
        if left == 0:
            continue
        values = block[line][:width]
        if len(offset):
            for position in range(width):
                values[position] -= offset[column + position]
        # Exclude positives and the query itself from the comparison.
        for position in range(max(first[query] - column, 0), min(last[query] - column, width)):
            values[position] = -np.inf
        if column <= itself[query] < column + width:
            values[itself[query] - column] = -np.inf
        start = starts[query]
        if left >= SEARCH:
            part = slice(start, start + left)
            _search(values, near[part], above[part], level[part], kept, positions)
            continue
        reaching = 1
        for step in range(left):  # farthest first: if no value reaches it, none reaches the others
            leads = step % POSITIVES_AT_ONCE == 0
            if not leads and reaching == 0:
                continue
            at = start + (min(step + POSITIVES_AT_ONCE, left) if leads else step) - 1
            limit, more, same = near[at], np.int32(0), np.int32(0)
            for position in range(width):  # branch-free, so that it vectorises
                more = _plus(more, values[position] > limit)
                same = _plus(same, values[position] == limit)
            above[at] += more
            level[at] += same
            if leads:
                reaching = int(more) + int(same)
        while left > 1 and left - 1 + above[start + left - 1] >= reach[query]:
            left -= 1
        active[query] = left


@compiled
def _search(values: Array, near: Array, above: Array, level: Array, kept: Array, positions: Array) -> None:
    """Add a step at the first positive that is farther than each value. `kept`, `positions`: work buffers.

    Many values are searched in parallel to hide memory latency.
    """
    count, many = len(near), 0
    for value in values:  # keep the values that count
        kept[many] = value
        many += value >= near[-1]
    for start in range(0, many, len(positions)):
        some, size = min(many - start, len(positions)), count
        positions[:some] = 0
        while size > 1:
            half = size >> 1
            for number in range(some):
                positions[number] += half * (near[positions[number] + half - 1] >= kept[start + number])
            size -= half
        for number in range(some):
            value = kept[start + number]
            position = positions[number] + (near[positions[number]] >= value)  # the first positive that is farther
            if position < count:
                above[position] += 1
            if position > 0 and near[position - 1] == value:
                if position < count:
                    level[position] -= 1
                level[_first_level(near, position - 1)] += 1


@compiled
def _first_level(near: Array, position: int) -> int:
    """The first positive tied with the one at `position`."""
    low, high = 0, position
    while low < high:
        middle = (low + high) >> 1
        if near[middle] <= near[position]:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def sum_steps(starts: Array, active: Array, above: Array, level: Array) -> None:
    """Turn the steps of queries with many positives into counts."""
    for query in range(len(starts) - 1):
        if active[query] >= SEARCH:
            for at in range(starts[query] + 1, starts[query] + active[query]):
                above[at] += above[at - 1]
                level[at] += level[at - 1]
