"""The retrieval metrics of all queries, block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from levelfield.errors import BadSpecification
from levelfield.evaluation.extent import Division
from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.large.blocks import QueryBlock, Sorted
from levelfield.evaluation.large.counting import Job, measure
from levelfield.evaluation.large.limits import divide
from levelfield.evaluation.large.shards import Shards
from levelfield.evaluation.metrics.registry import Metric
from levelfield.evaluation.search.distances import Chosen, change_for
from levelfield.evaluation.search.ranking import best_way
from levelfield.progress import Stage
from levelfield.trust import trusted


def search_in_blocks(
    inputs: Inputs,
    wanted: list[Metric],
    *,
    ties: str,
    distance: str,
    memory: str | int,
    shards: Shards | None,
    stage: Stage,
) -> tuple[dict[str, Array], Division]:
    """Values of each query in input order, and how the search was divided. None: blocks are searched by this process.

    The values do not depend on the division: entries of products in whole tiles are the same everywhere.
    """
    if best_way(inputs) != "walk":
        raise BadSpecification(
            "A search in blocks needs a CPU, numba, and a matrix library whose results do not depend on the size of a "
            "product. Evaluate in this process with a larger memory limit instead (--memory, without --jobs and --ray)."
        )
    ready = Sorted(inputs)
    workers = 1 if shards is None else shards.workers
    threads = (shards and shards.threads) or torch.get_num_threads()
    division = divide(memory, inputs, ready.positives, metrics=len(wanted), workers=workers, threads=threads)
    gallery = Chosen(inputs.gallery, ready.gallery_order)
    query = gallery if inputs.self_search else Chosen(inputs.query)
    codes = inputs.gallery_codes.astype(np.min_scalar_type(len(inputs.classes)))
    change = change_for(query, gallery, distance=distance)
    names = tuple(metric.name for metric in wanted)
    job = Job(inputs.query, inputs.gallery, codes, change, names, ties, division.panel, trusted())
    result = np.zeros((len(wanted), len(inputs.query)))
    rows = []

    def kept(blocks: Iterable[QueryBlock]) -> Iterator[QueryBlock]:
        for block in blocks:
            rows.append(block.rows)  # a view of the order
            yield block

    def here(job: Job, blocks: Iterable[QueryBlock]) -> Iterator[Array]:
        return (measure(job, block, stage) for block in blocks)

    found = (here if shards is None else shards.map)(job, kept(ready.blocks(division)))
    for number, values in enumerate(found):
        result[:, rows[number]] = values
        if shards is not None:
            stage.advance(values.shape[1] * len(inputs.gallery))
    return dict(zip(names, result, strict=True)), division
