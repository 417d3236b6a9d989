"""Ranks of all queries within a memory limit: which search, and how many queries and gallery rows at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from levelfield.errors import BadSpecification
from levelfield.evaluation.inputs import Array, FileRows, Inputs
from levelfield.evaluation.search.arrangement import Arrangement, Counts, ranges
from levelfield.evaluation.search.compiling import import_numba
from levelfield.evaluation.search.dense import dense_bytes, dense_counts
from levelfield.evaluation.search.products import TILE, in_tiles, steady
from levelfield.progress import SILENT_STAGE, Stage

SEARCHES = ("blocked", "dense")
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
FIXED = 40 * 10**6  # bytes: blocks of one thread, and tie groups
THREAD = 16 * 10**6  # bytes: blocks of each further thread
_PER_QUERY = 120  # bytes: orders, ranges, reach; plus 8 per metric
_CENTRES = 4  # copies of the k-means centres: original, tiled for the product, sums, moved
# of a divided search
PER_ROW = 64  # bytes of each row: class, order, range of positives, while they are sorted
PER_ROW_OF_A_WORKER = 48  # bytes of each gallery row: class, id, positives, and harmonic numbers for tied rows
COPIES = 2  # of a block of queries or gallery rows: as read, and as compared
QUERIES = 16_128  # most queries in a block: more would not be faster
LEAST_GALLERY, MOST_GALLERY = 24 * TILE, 2**16 // TILE * TILE  # gallery rows at a time
BLOCKS_EACH = 2  # of each worker at least, so that all end at about the same time
WORTH = 4_032  # queries in a block that make another pass over the gallery worthwhile


def best_search(inputs: Inputs) -> str:
    """`blocked` on a CPU with numba if the matrix library is steady, otherwise `dense`."""
    if inputs.device.type != "cpu":
        return "dense"
    try:
        import_numba()
    except ImportError:  # it may be missing, or too old for the installed numpy
        return "dense"
    kinds = {np.dtype(np.float32), inputs.query.dtype}  # bits are float32
    return "blocked" if all(steady(kind, inputs.query.shape[1]) for kind in kinds) else "dense"


def count_ranks(
    arranged: Arrangement,
    reach: Array,
    *,
    pairs: int,
    search: str,
    device: torch.device | None = None,
    stage: Stage = SILENT_STAGE,
) -> Iterator[Counts]:
    """Yield the counts of all queries, in groups with at most `pairs` positives.

    The steps of `stage` are entries of the similarity matrix.
    """
    for begin, end in batches(arranged, pairs):
        if search == "blocked":
            from levelfield.evaluation.search.blocked import blocked_counts  # import numba only if it is used

            yield blocked_counts(arranged, reach, begin, end, threads=torch.get_num_threads(), stage=stage)
        else:
            yield dense_counts(arranged, reach, begin, end, device=device, stage=stage)


def batches(arranged: Arrangement, pairs: int) -> list[tuple[int, int]]:
    """Ranges of queries in whole tiles with at most `pairs` positives each (at least one tile)."""
    ends = np.append(np.arange(TILE, len(arranged.query_order), TILE), len(arranged.query_order))
    sums = np.append(0, np.cumsum(arranged.positives)[ends - 1])
    return [(start * TILE, int(ends[stop - 1])) for start, stop in ranges(sums, pairs)]


def parse_memory(memory: str | int) -> int:
    """Parse a memory size into bytes.

    >>> parse_memory("1.5GB"), parse_memory(500)
    (1500000000, 500)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(memory))
    if isinstance(memory, bool) or not match or match[2].upper() not in _UNITS:
        raise BadSpecification(f"memory={memory!r} is not a size: use '2GB', '500MB' or a number of bytes.")
    return int(float(match[1]) * _UNITS[match[2].upper()])


@dataclass(frozen=True)
class InMemory:
    """Bytes of a search with all rows in memory.

    rows: copy of the rows and work on them; pair: each (query, positive) pair; least: rows and one tile of queries.
    """

    rows: int
    pair: int
    least: int

    @classmethod
    def of(cls, inputs: Inputs, *, metrics: int, threads: int, search: str) -> InMemory:
        itemsize = inputs.query.dtype.itemsize
        per_row = inputs.query.shape[1] * itemsize + _PER_QUERY + 8 * metrics
        copied = in_tiles(len(inputs.gallery)) + (0 if inputs.self_search else in_tiles(len(inputs.query)))
        rows = FIXED + THREAD * (threads - 1) + copied * per_row
        if search == "dense" and inputs.device.type == "cpu":
            rows += dense_bytes(len(inputs.gallery), itemsize)
        pair = itemsize + 8
        return cls(rows, pair, rows + pair * TILE * int(np.bincount(inputs.gallery_codes).max()))

    def fits(self, memory: str | int) -> bool:
        return parse_memory(memory) >= self.least

    def pairs(self, memory: str | int, inputs: Inputs) -> int:
        """Number of (query, positive) pairs that fit into memory at a time."""
        return (refuse_less(memory, self.least, inputs) - self.rows) // self.pair


def check_copies(memory: str | int, inputs: Inputs, metrics: Sequence[str], *, clusters: int, threads: int) -> None:
    """Refuse a limit too small for a copy of the queries and the k-means centres (0: no k-means)."""
    row = inputs.query.shape[1] * inputs.query.dtype.itemsize
    needed = len(inputs.query) * (row + _PER_QUERY) + _CENTRES * clusters * row
    remedy = f" Retrieval metrics of a .npy file need no copy: leave out {', '.join(metrics)}."
    refuse_less(memory, FIXED + THREAD * (threads - 1) + needed, inputs, remedy)


def refuse_less(memory: str | int, needed: int, inputs: Inputs, remedy: str = "") -> int:
    """The limit in bytes; raises an error with the minimum if that exceeds it."""
    if (limit := parse_memory(memory)) < needed:
        raise BadSpecification(
            f"memory={memory!r} is too little for {len(inputs.query)} queries and "
            f"{len(inputs.gallery)} gallery rows with {inputs.query.shape[1]} columns: "
            f"the minimum is '{-(-needed // 10**6)}MB'.{remedy}"
        )
    return limit


@dataclass(frozen=True)
class Division:
    """How a search is divided: most queries and (query, positive) pairs of a block, and gallery rows at a time.

    memory: the limit in bytes for all workers together, beyond the program itself.
    """

    memory: int
    queries: int
    pairs: int
    gallery: int
    workers: int = 1


def divide(memory: str | int, inputs: Inputs, *, metrics: int, workers: int, threads: int) -> Division:
    """The largest blocks of queries and gallery rows within the limit; refuses a limit that is too small."""
    itemsize, gallery, queries = inputs.query.dtype.itemsize, len(inputs.gallery), len(inputs.query)
    row = COPIES * (inputs.query.shape[1] * itemsize + 32)
    pair = itemsize + 8
    shared = gallery * PER_ROW + (0 if inputs.self_search else queries * PER_ROW) + 8 * metrics * queries
    if isinstance(inputs.gallery, FileRows) and not isinstance(inputs.query, FileRows):
        shared += inputs.query.nbytes  # a sample: read from the file and kept
    fixed = FIXED + THREAD * (threads - 1) + gallery * PER_ROW_OF_A_WORKER
    least_block = TILE * row + pair * int(inputs.positives.max(initial=0))
    limit = refuse_less(memory, shared + workers * (fixed + row * LEAST_GALLERY + least_block), inputs)
    free = (limit - shared) // workers - fixed
    at_once = int(np.clip((free - least_block) // 2 // row // TILE * TILE, LEAST_GALLERY, MOST_GALLERY))
    free -= at_once * row
    even = -(-queries // workers)
    even = -(-even // BLOCKS_EACH) if workers > 1 and even >= BLOCKS_EACH * WORTH else even
    typical = row + pair * max(int(inputs.positives.mean()) if queries else 0, 1)
    block = int(np.clip(in_tiles(min(free // typical, even)), TILE, QUERIES))
    return Division(limit, block, max((free - block * row) // pair, 1), at_once, workers)
