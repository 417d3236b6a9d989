"""Search in plain torch: sort whole rows of the similarity matrix. For GPUs, and without numba.

Slower than `walk` on a CPU, but it makes no assumption about the matrix library: both sides of every comparison come
from one product, and rows with the same bits are tied for every query.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from levelfield.evaluation.inputs import Array
from levelfield.evaluation.search.arrangement import Arrangement
from levelfield.evaluation.search.order import first_twins
from levelfield.evaluation.search.products import TILE, in_tiles
from levelfield.evaluation.search.ranks import Counts, empty_counts
from levelfield.geometry import tf32
from levelfield.progress import SILENT_STAGE, Stage

_ENTRIES = 2**22  # entries of a panel, if it has more than one tile of rows
_SORTED = 2**18  # entries sorted at a time, at least one row
_PER_ENTRY = 100  # bytes for sorting, if every row is a positive


class Panels:
    """Similarities of a few queries to the whole gallery, on one device."""

    def __init__(self, arranged: Arrangement, device: torch.device | None = None) -> None:
        device = device or torch.device("cpu")
        self.gallery = torch.from_numpy(arranged.gallery).to(device)
        self.query = self.gallery if arranged.symmetric else torch.from_numpy(arranged.query).to(device)
        self.offset = None if arranged.offset is None else torch.from_numpy(arranged.offset).to(device)
        self.columns = len(arranged.gallery_order)
        twins = first_twins(arranged.gallery[: self.columns])
        copies = np.flatnonzero(twins != np.arange(self.columns))
        self.copies, self.originals = (torch.from_numpy(one).to(device) for one in (copies, twins[copies]))

    def of(self, top: int, bottom: int) -> Tensor:
        """`[bottom - top, gallery]`, a new tensor; `top` is a multiple of TILE."""
        with tf32(False):
            values = self.query[top : top + in_tiles(bottom - top)] @ self.gallery.T
        if self.offset is not None:
            values -= self.offset
        values = values[: bottom - top, : self.columns]
        for part in values.split(rows_sorted(self.columns)):
            part[:, self.copies] = part[:, self.originals]
        return values


def lines(gallery: int) -> int:
    """Queries in a panel: whole tiles, at least one."""
    return max(_ENTRIES // gallery // TILE, 1) * TILE


def rows_sorted(gallery: int) -> int:
    """Rows of a panel sorted at a time: their memory is small compared with the panel."""
    return max(_SORTED // gallery, 1)


def panel_bytes(gallery: int, bytes_each: int) -> int:
    """Maximum memory of a panel and its sorted rows."""
    return lines(gallery) * in_tiles(gallery) * bytes_each + rows_sorted(gallery) * gallery * _PER_ENTRY


def search_panels(
    arranged: Arrangement,
    reach: Array,
    begin: int,
    end: int,
    *,
    device: torch.device | None = None,
    stage: Stage = SILENT_STAGE,
) -> Counts:
    """Counts of the queries from `begin` (a multiple of TILE) to `end`."""
    counts, panels = empty_counts(arranged, begin, end, reach), Panels(arranged, device)
    for top in range(begin, end, lines(panels.columns)):
        bottom = min(top + lines(panels.columns), end)
        line = top
        for similarity in panels.of(top, bottom).split(rows_sorted(panels.columns)):
            lines_here = slice(line, line + len(similarity))
            found = _count(
                similarity,
                *(
                    torch.from_numpy(one[lines_here]).to(similarity.device)
                    for one in (arranged.first, arranged.last, arranged.own)
                ),
            )
            line = lines_here.stop
            part = slice(counts.starts[lines_here.start - begin], counts.starts[line - begin])
            for whole, values in zip((counts.near, counts.above, counts.level), found, strict=True):
                whole[part] = values.cpu().numpy()
        stage.advance((bottom - top) * len(arranged.gallery_order))
    return counts


def _count(similarity: Tensor, first: Tensor, last: Tensor, own: Tensor) -> Iterator[Tensor]:
    """Near, above and level of each positive, flat. Consumes `similarity`: positives and the query are removed."""
    columns = similarity.shape[1]
    steps = torch.arange(int((last - first).max()), device=similarity.device)
    places = first[:, None] + steps
    real = (places < last[:, None]) & (places != own[:, None])
    places = places.clamp(max=columns - 1)
    near = similarity.gather(1, places).masked_fill(~real, -torch.inf).sort(dim=1, descending=True).values
    line, slot = real.nonzero(as_tuple=True)
    similarity[line, places[line, slot]] = -torch.inf
    present = (own >= 0).nonzero(as_tuple=True)[0]
    similarity[present, own[present]] = -torch.inf
    others = similarity.sort(dim=1).values
    not_above = torch.searchsorted(others, near, right=True)
    below = torch.searchsorted(others, near)
    filled = steps < real.sum(dim=1, keepdim=True)
    return (values[filled] for values in (near, columns - not_above, not_above - below))
