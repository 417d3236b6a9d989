"""Which queries keep their neighbours on the page, and which images get a thumbnail, in a large test set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from levelfield.randomness import numpy_stream
from levelfield.reports.page.data import Array
from levelfield.reports.page.images import ImageSet
from levelfield.reports.page.sections.search import Found

ALL_LISTS = 60_000  # neighbour lists of all methods together: 10 methods of the demo, 3 MB
FEW, FEWEST = 2_000, 200  # queries of a larger set; with many methods fewer
_MANY = 6_000  # images of a test set with a list for every query


def chosen_queries(found: Sequence[Found], images: ImageSet) -> Array | None:
    """The queries whose neighbours are kept, ascending; None: all of them.

    Of a large set, or with many methods: queries that no method gets right first, then those where methods disagree,
    then others at random.
    """
    if not found or (len(images) <= _MANY and len(found[0].queries) * len(found) <= ALL_LISTS):
        return None
    queries, most = found[0].queries, max(FEWEST, min(FEW, ALL_LISTS // len(found)))
    wrong = sum((one.first_right > 1).astype(np.int64) for one in found)
    order = numpy_stream(0, "page", "chosen").permutation(len(queries))
    kind = np.where(wrong == len(found), 0, np.where(wrong > 0, 1, 2))[order]
    return np.sort(queries[order[np.argsort(kind, kind="stable")][:most]])


def chosen_thumbnails(
    found: Sequence[Found], chosen: Array | None, images: ImageSet, wanted: Sequence[int], most: int
) -> Array | None:
    """The images that get a thumbnail: those `wanted`, the chosen queries, then their neighbours, nearest first.

    None: all images.
    """
    if len(images) <= most:
        return None
    picked = dict.fromkeys(int(image) for image in wanted)
    queries = images.queries if chosen is None else chosen
    picked |= dict.fromkeys(queries.tolist())
    for rank in range(max((one.neighbours.shape[1] for one in found), default=0)):
        for one in found:
            if len(picked) >= most:
                break
            kept = slice(None) if chosen is None else np.isin(one.queries, chosen)
            if rank < one.neighbours.shape[1]:
                picked |= dict.fromkeys(one.neighbours[kept, rank].tolist())
    return np.sort(np.array(list(picked)[:most], np.int64))
