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
from levelfield.evaluation.search.arrangement import Arrangement, Counts, empty_counts, ranges
from levelfield.evaluation.search.products import TILE
from levelfield.evaluation.search.threads import share
from levelfield.progress import SILENT_STAGE, Stage

_WORTH = 2**21  # entries that make one more thread worthwhile
_SORTED, _LISTS = 2**13, 256  # similarities and queries sorted at a time, at least one query
LINES = 2 * TILE  # queries whose positives are computed at a time
HEIGHT, WIDTH = 12 * TILE, 24 * TILE  # of a block: it and its transpose fit in the cache
_STEP = 4 * TILE  # smaller blocks on the diagonal, where half of the entries are redundant


@dataclass(frozen=True)
class Block:
    """Queries `top` to `bottom` against gallery rows `left` to `right`; `both`: also the transposed block."""

    top: int
    bottom: int
    left: int
    right: int
    both: bool = False


def blocks(arranged: Arrangement, begin: int, end: int) -> Iterator[Block]:
    """All blocks that the queries from `begin` to `end` need."""
    gallery = len(arranged.gallery_order)
    for top in range(begin, end, HEIGHT):
        bottom = min(top + HEIGHT, end)
        if not arranged.symmetric:
            yield from strips(Block(top, bottom, 0, gallery))
            continue
        if begin:
            yield from strips(Block(top, bottom, 0, begin))
        for inner in range(top, bottom, _STEP):
            stop = min(inner + _STEP, bottom)
            yield Block(inner, stop, inner, stop)
            yield from strips(Block(inner, stop, stop, bottom, both=True))
        yield from strips(Block(top, bottom, bottom, end, both=True))
        if end < gallery:
            yield from strips(Block(top, bottom, end, gallery))


def strips(whole: Block) -> list[Block]:
    """A block of any width in blocks of the usual width."""
    starts = range(whole.left, whole.right, WIDTH)
    return [replace(whole, left=left, right=min(left + WIDTH, whole.right)) for left in starts]


def blocked_counts(
    arranged: Arrangement, reach: Array, begin: int, end: int, *, threads: int = 1, stage: Stage = SILENT_STAGE
) -> Counts:
    """Counts of the queries from `begin` (a multiple of TILE) to `end`; `reach[q]`: the last rank that matters."""
    counts = empty_counts(arranged.positives[begin:end], reach[begin:end], arranged.query.dtype, begin)
    search = BlockSearch(arranged, reach, counts)
    threads = min(threads, 1 + (end - begin) * len(arranged.gallery_order) // _WORTH)
    deque(share(range(begin, end, LINES), search.gather, threads), maxlen=0)
    sort(counts, threads)
    for block in share(blocks(arranged, begin, end), search.count, threads):
        stage.advance((block.bottom - block.top) * (block.right - block.left) * (1 + block.both))
    kernels.sum_steps(counts.starts, counts.active, counts.above, counts.level)
    return counts


def sort(counts: Counts, threads: int) -> None:
    """Sort the similarities of each query, nearest first."""

    def sort_some(queries: tuple[int, int]) -> None:
        starts = counts.starts[queries[0] : queries[1] + 1]
        near, positives = counts.near[starts[0] : starts[-1]], np.diff(starts)
        real = np.arange(positives.max()) < positives[:, None]
        lines = np.full(real.shape, np.inf, near.dtype)
        lines[real] = -near
        lines.sort(axis=1)
        near[:] = -lines[real]

    deque(share(ranges(counts.starts, _SORTED, items=_LISTS), sort_some, threads), maxlen=0)


class BlockSearch:
    """Blocks of one search, shared by threads, each with its own buffers; a lock guards the counts of each strip."""

    def __init__(self, arranged: Arrangement, reach: Array, counts: Counts) -> None:
        self.arranged, self.counts = arranged, counts
        self.query, self.gallery = torch.from_numpy(arranged.query), torch.from_numpy(arranged.gallery)
        self.offset = np.empty(0, arranged.query.dtype) if arranged.offset is None else arranged.offset
        part = slice(counts.begin, counts.end)
        self.positives = arranged.first[part], arranged.last[part], arranged.itself[part], self.offset
        self.tables = counts.starts, counts.near, counts.active, reach[part], counts.above, counts.level
        self.locks = [threading.Lock() for _ in range(counts.begin, counts.end, HEIGHT)]
        self.buffers = _Buffers(self.query.dtype, arranged.query.dtype)

    def gather(self, top: int) -> None:
        """Similarities to positives from small products in whole tiles: the same bits as in large products.

        Positives outside the arrangement's gallery (below 0, or beyond its end) are left for another arrangement.
        """
        counts, arranged, bottom = self.counts, self.arranged, min(top + LINES, self.counts.end)
        begin = counts.begin
        left = max(arranged.first[top:bottom].min(), 0) // TILE * TILE
        right = min(arranged.last[top:bottom].max(), len(arranged.gallery_order))
        for block in strips(Block(top, bottom, int(left), int(right))):
            values = self._product(block)
            rows, columns = bottom - top, block.right - block.left
            kernels.gather(values, rows, columns, top - begin, block.left, self.positives, self.tables)

    def count(self, block: Block) -> None:
        """Count in a block for its rows and, if requested, for its columns."""
        begin, rows, columns = self.counts.begin, block.bottom - block.top, block.right - block.left
        values, turned = self._product(block), self.buffers.turned
        if block.both:
            kernels.turn(values, rows, columns, turned)
        self._count(values, rows, columns, block.top - begin, block.left)
        for left in range(block.left, block.right if block.both else block.left, HEIGHT):  # one strip of the columns
            strip = turned[left - block.left :]
            self._count(strip, min(HEIGHT, block.right - left), rows, left - begin, block.top)

    def _count(self, values: Array, rows: int, columns: int, row: int, column: int) -> None:
        with self.locks[row // HEIGHT]:
            kernels.count(values, rows, columns, row, column, self.positives, self.tables)

    def _product(self, block: Block) -> Array:
        """Products in whole tiles, in the buffer of this thread."""
        height, width = block.bottom - block.top, block.right - block.left
        height, width = height + -height % TILE, width + -width % TILE
        out = self.buffers.product[: height * width].view(height, width)
        torch.mm(self.query[block.top : block.top + height], self.gallery[block.left : block.left + width].T, out=out)
        return np.asarray(out.numpy())


class _Buffers(threading.local):
    """Space for one block and its transpose, in each thread."""

    def __init__(self, dtype: torch.dtype, kind: np.dtype[np.generic]) -> None:
        self.product = torch.empty(HEIGHT * WIDTH, dtype=dtype)
        self.turned = np.empty((WIDTH, HEIGHT), kind)
