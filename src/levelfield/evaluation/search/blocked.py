"""Blocked search on a CPU: visit the blocks of the similarity matrix and count ranks with compiled loops.

If queries and gallery are the same set, only the blocks on and above the diagonal are computed; each is counted for its
rows and, transposed, for its columns. The full matrix is never stored.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from levelfield.evaluation.inputs import Array
from levelfield.evaluation.search import blocked_kernels as kernels
from levelfield.evaluation.search.arrangement import Arrangement, Counts, empty_counts
from levelfield.evaluation.search.products import TILE
from levelfield.evaluation.search.threads import share
from levelfield.progress import SILENT_STAGE, Stage

_WORTH = 2**21  # entries that make one more thread worthwhile
LINES = 2 * TILE  # queries whose positives are computed at a time
_STEP = 4 * TILE  # smaller blocks on the diagonal, where half of the entries are redundant


@dataclass(frozen=True)
class Size:
    """Block size in whole tiles: the block and its transpose fit in the cache. Results do not depend on it."""

    height: int = 12 * TILE
    width: int = 24 * TILE


@dataclass(frozen=True)
class Block:
    """Queries `top` to `bottom` against gallery rows `left` to `right`; `both`: also the transposed block."""

    top: int
    bottom: int
    left: int
    right: int
    both: bool = False


def blocks(arranged: Arrangement, begin: int, end: int, size: Size) -> Iterator[Block]:
    """All blocks that the queries from `begin` to `end` need."""
    gallery = len(arranged.gallery_order)
    for top in range(begin, end, size.height):
        bottom = min(top + size.height, end)
        if not arranged.symmetric:
            yield from strips(Block(top, bottom, 0, gallery), size)
            continue
        if begin:
            yield from strips(Block(top, bottom, 0, begin), size)
        for inner in range(top, bottom, _STEP):
            stop = min(inner + _STEP, bottom)
            yield Block(inner, stop, inner, stop)
            yield from strips(Block(inner, stop, stop, bottom, both=True), size)
        yield from strips(Block(top, bottom, bottom, end, both=True), size)
        if end < gallery:
            yield from strips(Block(top, bottom, end, gallery), size)


def strips(whole: Block, size: Size) -> list[Block]:
    """A block of any width in blocks of the given width."""
    starts = range(whole.left, whole.right, size.width)
    return [replace(whole, left=left, right=min(left + size.width, whole.right)) for left in starts]


def blocked_counts(
    arranged: Arrangement,
    reach: Array,
    begin: int,
    end: int,
    *,
    threads: int = 1,
    stage: Stage = SILENT_STAGE,
    size: Size | None = None,
) -> Counts:
    """Counts of the queries from `begin` (a multiple of TILE) to `end`; `reach[q]`: the last rank that matters."""
    size = size or Size()
    counts = empty_counts(arranged.positives[begin:end], reach[begin:end], arranged.query.dtype, begin)
    search = BlockSearch(arranged, reach, counts, size)
    threads = min(threads, 1 + (end - begin) * len(arranged.gallery_order) // _WORTH)
    for step in (search.gather, search.sort):
        deque(share(range(begin, end, LINES), step, threads), maxlen=0)
    for block in share(blocks(arranged, begin, end, size), search.count, threads):
        stage.advance((block.bottom - block.top) * (block.right - block.left) * (1 + block.both))
    kernels.sum_steps(counts.starts, counts.active, counts.above, counts.level)
    return counts


class BlockSearch:
    """Blocks of one search, shared by threads: each thread has its own buffers; a lock guards the counts of each
    strip."""

    def __init__(self, arranged: Arrangement, reach: Array, counts: Counts, size: Size) -> None:
        self.arranged, self.counts, self.size = arranged, counts, size
        self.query, self.gallery = torch.from_numpy(arranged.query), torch.from_numpy(arranged.gallery)
        self.offset = np.empty(0, arranged.query.dtype) if arranged.offset is None else arranged.offset
        part = slice(counts.begin, counts.end)
        self.positives = arranged.first[part], arranged.last[part], arranged.itself[part], self.offset
        self.tables = counts.starts, counts.near, counts.active, reach[part], counts.above, counts.level
        self.has_long = bool((np.diff(counts.starts) > kernels.SHORT).any())
        self.locks = [threading.Lock() for _ in range(counts.begin, counts.end, size.height)]
        self.buffers = _Buffers(size, self.query.dtype, arranged.query.dtype)

    def gather(self, top: int) -> None:
        """Similarities to positives from small products in whole tiles: the same bits as in large products.

        Positives outside the arrangement's gallery (below 0, or beyond its end) are left for another arrangement.
        """
        counts, arranged, bottom = self.counts, self.arranged, min(top + LINES, self.counts.end)
        begin = counts.begin
        left = max(arranged.first[top:bottom].min(), 0) // TILE * TILE
        right = min(arranged.last[top:bottom].max(), len(arranged.gallery_order))
        for block in strips(Block(top, bottom, int(left), int(right)), self.size):
            values = self._product(block)
            kernels.gather(
                values,
                bottom - top,
                block.right - block.left,
                top - begin,
                block.left,
                *self.positives,
                counts.starts,
                counts.near,
            )

    def sort(self, top: int) -> None:
        """Sort the similarities of some queries, nearest first."""
        counts, bottom = self.counts, min(top + LINES, self.counts.end)
        kernels.sort_short(top - counts.begin, bottom - counts.begin, counts.starts, counts.near)
        if self.has_long:
            kernels.sort_long(top - counts.begin, bottom - counts.begin, counts.starts, counts.near)

    def count(self, block: Block) -> None:
        """Count in a block for its rows and, if requested, for its columns."""
        turned = self.buffers.turned
        values = self._product(block)
        rows, columns = block.bottom - block.top, block.right - block.left
        if block.both:
            kernels.turn(values, rows, columns, turned)
        begin, height = self.counts.begin, self.size.height
        with self.locks[(block.top - begin) // height]:
            kernels.count(values, rows, columns, block.top - begin, block.left, *self.positives, *self.tables)
        if block.both:
            for left in range(block.left, block.right, height):  # one strip of the columns
                with self.locks[(left - begin) // height]:
                    kernels.count(
                        turned[left - block.left :],
                        min(height, block.right - left),
                        rows,
                        left - begin,
                        block.top,
                        *self.positives,
                        *self.tables,
                    )

    def _product(self, block: Block) -> Array:
        """Products in whole tiles, in the buffer of this thread."""
        height, width = block.bottom - block.top, block.right - block.left
        height, width = height + -height % TILE, width + -width % TILE
        out = self.buffers.product[: height * width].view(height, width)
        torch.mm(self.query[block.top : block.top + height], self.gallery[block.left : block.left + width].T, out=out)
        values: Array = out.numpy()
        return values


class _Buffers(threading.local):
    """Space for one block and its transpose, in each thread."""

    def __init__(self, size: Size, dtype: torch.dtype, kind: np.dtype[np.generic]) -> None:
        self.product = torch.empty(size.height * size.width, dtype=dtype)
        self.turned = np.empty((size.width, size.height), kind)
