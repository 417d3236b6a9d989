"""The retrieval metrics of all queries, block by block, in less memory than the embeddings need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from levelfield.errors import BadSpecification
from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.metrics.registry import Metric
from levelfield.evaluation.query_blocks import Job, QueryBlock, SortedInputs, block_values
from levelfield.evaluation.search.distances import Selection, change_for
from levelfield.evaluation.search.memory import Division, divide
from levelfield.evaluation.search.ranking import best_search
from levelfield.evaluation.shards import Shards
from levelfield.progress import Stage
from levelfield.trust import trusted


def search_in_blocks(
    inputs: Inputs,
    metrics: list[Metric],
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
    if best_search(inputs) != "blocked":
        raise BadSpecification(
            "A search in blocks needs a CPU, numba, and a matrix library whose results do not depend on the size of a "
            "product. Evaluate in this process with a larger memory limit instead (--memory, without --jobs and --ray)."
        )
    ready = SortedInputs(inputs)
    workers = 1 if shards is None else shards.workers
    threads = (shards and shards.threads) or torch.get_num_threads()
    division = divide(memory, inputs, ready.positives, metrics=len(metrics), workers=workers, threads=threads)
    gallery = Selection(inputs.gallery, ready.gallery_order)
    query = gallery if inputs.self_search else Selection(inputs.query)
    codes = inputs.gallery_codes.astype(np.min_scalar_type(len(inputs.classes)))
    change = change_for(query, gallery, distance=distance)
    names = tuple(metric.name for metric in metrics)
    job = Job(inputs.query, inputs.gallery, codes, change, names, ties, division.gallery, trusted())
    result = np.zeros((len(metrics), len(inputs.query)))
    rows = []

    def sent(blocks: Iterable[QueryBlock]) -> Iterator[QueryBlock]:
        for block in blocks:
            rows.append(block.rows)  # a view of the order
            yield block

    def search_here(job: Job, blocks: Iterable[QueryBlock]) -> Iterator[Array]:
        return (block_values(job, block, stage) for block in blocks)

    search = search_here if shards is None else shards.map
    for number, values in enumerate(search(job, sent(ready.blocks(division)))):
        result[:, rows[number]] = values
        if shards is not None:
            stage.advance(values.shape[1] * len(inputs.gallery))
    return dict(zip(names, result, strict=True)), division
