"""How many queries and gallery rows are in memory at a time, so that an evaluation keeps its memory limit."""

from __future__ import annotations

import numpy as np

from levelfield.evaluation.extent import Division
from levelfield.evaluation.file_rows import FileRows
from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.search.budget import FIXED, THREAD, parse_memory, refuse_less
from levelfield.evaluation.search.products import TILE, in_tiles

PER_ROW = 64  # bytes of each row: class, order, range of positives, while they are sorted
PER_ROW_OF_A_WORKER = 32  # bytes of each gallery row: class, and harmonic numbers for tied rows
COPIES = 2  # of a block of queries or a panel of gallery rows: as read, and as compared
QUERIES = 16_128  # most queries in a block: more would not be faster
LEAST_PANEL, MOST_PANEL = 24 * TILE, 2**16 // TILE * TILE  # gallery rows
BLOCKS_EACH = 2  # of each worker at least, so that all end at about the same time
WORTH = 4_032  # queries in a block that make another pass over the gallery worthwhile


def divide(
    memory: str | int, inputs: Inputs, positives: Array, *, metrics: int, workers: int, threads: int
) -> Division:
    """The largest blocks and panels within the limit; refuses a limit that is too small."""
    kind, gallery, asked = inputs.query.dtype.itemsize, len(inputs.gallery), len(inputs.query)
    row = COPIES * (inputs.query.shape[1] * kind + 32)
    pair = kind + 8
    shared = gallery * PER_ROW + (0 if inputs.self_search else asked * PER_ROW) + 8 * metrics * asked
    if isinstance(inputs.gallery, FileRows) and not isinstance(inputs.query, FileRows):
        shared += inputs.query.nbytes  # a sample: read from the file and kept
    fixed = FIXED + THREAD * (threads - 1) + gallery * PER_ROW_OF_A_WORKER
    least_block = TILE * row + pair * int(positives.max(initial=0))
    refuse_less(memory, shared + workers * (fixed + row * LEAST_PANEL + least_block), inputs)
    free = (parse_memory(memory) - shared) // workers - fixed
    panel = int(np.clip((free - least_block) // 2 // row // TILE * TILE, LEAST_PANEL, MOST_PANEL))
    free -= panel * row
    even = -(-asked // workers)
    even = -(-even // BLOCKS_EACH) if workers > 1 and even >= BLOCKS_EACH * WORTH else even
    typical = row + pair * max(int(positives.mean()) if asked else 0, 1)
    queries = int(np.clip(in_tiles(min(free // typical, even)), TILE, QUERIES))
    return Division(parse_memory(memory), queries, max((free - queries * row) // pair, 1), panel, workers)
