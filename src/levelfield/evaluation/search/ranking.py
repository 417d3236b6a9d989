"""One search for all retrieval metrics, in bounded memory: blocked or dense."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import numpy as np
import torch

from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.search.arrangement import Arrangement, Counts
from levelfield.evaluation.search.dense import dense_counts
from levelfield.evaluation.search.products import TILE, steady
from levelfield.progress import SILENT_STAGE, Stage

SEARCHES = ("blocked", "dense")


def best_search(inputs: Inputs) -> str:
    """`blocked` on a CPU with numba if the matrix library is steady, otherwise `dense`."""
    bits, rows, dim = np.dtype(np.float32), inputs.query.dtype, inputs.query.shape[1]
    if inputs.device.type != "cpu" or not _has_numba():
        return "dense"
    return "blocked" if steady(bits, dim) and (rows == bits or steady(rows, dim)) else "dense"


def _has_numba() -> bool:
    """Whether numba can be imported: it may be missing, or too old for the installed numpy."""
    try:
        importlib.import_module("numba")
    except ImportError:
        return False
    return True


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
    ranges, start = [], 0
    while start < len(ends):
        stop = max(int(np.searchsorted(sums, sums[start] + pairs, "right")) - 1, start + 1)
        ranges.append((start * TILE, int(ends[stop - 1])))
        start = stop
    return ranges
