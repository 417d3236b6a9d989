"""The compiled loop of the page's search: one pass over the similarities of a few queries to the whole gallery."""

from __future__ import annotations

import numpy as np

from levelfield.evaluation.inputs import Array
from levelfield.evaluation.search.blocked_kernels import compiled


@compiled
def scan(
    values: Array,
    first: Array,
    last: Array,
    own: Array,
    codes: Array,
    order: Array,
    low: float,
    width: float,
    images: Array,
    near: Array,
    first_right: Array,
    same: Array,
    every: Array,
) -> None:
    """Nearest images, rank of the first right one, and pairs by bin, of each line of `values`; columns are by class.

    The right images of a line are the columns `first` to `last` without `own`, the query itself (-1: none); ties are
    broken by `order`, the images of the columns. Sets `images`, `near` and `first_right`; adds to `same` and
    `every` (classes, bins), at the class in `codes`. No bins: no pairs are counted.
    """
    k, bins = images.shape[1], every.shape[1]
    number = np.empty(values.shape[1], np.int32)
    for line in range(len(values)):
        row, mine = values[line], own[line]
        if mine >= 0:
            row[mine] = -np.inf
        if bins:
            _bins(row, low, width, bins, number)
            _add(number, every[codes[line]])
            _add(number[first[line] : last[line]], same[codes[line]])
            if mine >= 0:
                every[codes[line], 0] -= 1
                if first[line] <= mine < last[line]:
                    same[codes[line], 0] -= 1
        _nearest(row, order, k, images[line], near[line])
        first_right[line] = _first_right(row, order, first[line], last[line], mine, near[line])


@compiled
def _bins(row: Array, low: float, width: float, bins: int, out: Array) -> None:
    """The bin of each value: 0 below `low`, then one for each `width`."""
    for column in range(len(row)):
        step = np.floor((row[column] - low) / width) + 1
        out[column] = np.int32(min(max(step, 0), bins - 1))


@compiled
def _add(numbers: Array, counts: Array) -> None:
    for number in numbers:
        counts[number] += 1


@compiled
def _nearest(row: Array, order: Array, k: int, images: Array, near: Array) -> None:
    """The k largest values in order, tied ones by `order`; by insertion, which is seldom needed."""
    filled, worst = 0, row[0]
    for column in range(len(row)):
        value = row[column]
        if filled == k and (value < worst or (value == worst and order[column] > images[k - 1])):
            continue
        filled = min(filled + 1, k)
        at = filled - 1
        while at > 0 and (near[at - 1] < value or (near[at - 1] == value and images[at - 1] > order[column])):
            near[at], images[at] = near[at - 1], images[at - 1]
            at -= 1
        near[at], images[at] = value, order[column]
        worst = near[filled - 1]


@compiled
def _first_right(row: Array, order: Array, first: int, last: int, own: int, near: Array) -> int:
    """The rank of the nearest right image; 0: there is none."""
    best, image = -np.inf, -1
    for column in range(first, last):
        if column != own and (image < 0 or row[column] > best or (row[column] == best and order[column] < image)):
            best, image = row[column], order[column]
    if image < 0:
        return 0
    nearer, tied = 0, 0
    if best > near[-1]:
        for value in near:
            nearer += value > best
            tied += value == best
    else:
        for value in row:
            nearer += value > best
            tied += value == best
    if tied > 1:
        for column in range(len(row)):
            nearer += row[column] == best and order[column] < image
    return nearer + 1
