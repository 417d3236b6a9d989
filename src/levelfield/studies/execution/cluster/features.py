"""Features below the cut as Ray objects, for nodes without the images (`--ship-features`).

The driver computes them once. On a node, all processes read the same copy in shared memory.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from levelfield.data import Catalog
from levelfield.embedder.trunk.cache import FeatureCache
from levelfield.embedder.trunk.chunks import Chunk, Rows
from levelfield.errors import BadSpecification
from levelfield.progress import SILENT_STAGE, Progress, Stage
from levelfield.studies.runs.inputs import RunInputs, inputs_for
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.shared import Shipped, forget_inputs, receive, shipped_data
from levelfield.studies.runs.spec import PlannedRun


@dataclass(frozen=True)
class Shipment:
    """Everything that the runs on one dataset need of its images. chunks: the features under each view."""

    digest: str
    catalog: Catalog
    chunks: dict[str, Chunk] = field(default_factory=dict)
    name: str = field(default_factory=lambda: secrets.token_hex(8))


def check_shippable(runs: Sequence[PlannedRun], options: Options) -> None:
    """Refuse runs that need images."""
    for run in runs:
        if not run.spec.joined and not inputs_for(run.spec, options.cache_folder, options.device).is_cached:
            raise BadSpecification(
                f"--ship-features: '{run.label}' has no features to ship: its whole network trains (cut: tuned), or it "
                "has `cache: false`. Use `cut: frozen` or `last-N`, or make the images available on every node."
            )


def packed(runs: Sequence[PlannedRun], options: Options, progress: Progress) -> dict[str, Shipment]:
    """Compute what runs need; a shipment for each dataset, by its digest."""
    shipments: dict[str, Shipment] = {}
    for run in runs:
        if not run.spec.joined:
            torch.set_num_threads(run.spec.conditions.threads)
            inputs = inputs_for(run.spec, options.cache_folder, options.device)
            digest = run.spec.data_digest
            _add(shipments.setdefault(digest, Shipment(digest, inputs.catalog)).chunks, inputs, progress)
    return shipments


def _add(chunks: dict[str, Chunk], inputs: RunInputs, progress: Progress) -> None:
    """Add the features of all images that a run reads, under each of its views."""
    fold, (training, test) = inputs.fold, inputs.views
    count = max(1, inputs.conditions.views) if training.random else 1
    used = [(training, number, fold.train) for number in range(count)]
    for view, number, images in [(test, 0, np.concatenate([fold.train, fold.validation, fold.test])), *used]:
        key, digests = inputs.key_of(view, number), np.array(inputs.catalog.digests)
        packed_before = chunks[key].digests if key in chunks else ()
        together = np.union1d(images, np.flatnonzero(np.isin(digests, packed_before)))
        if set(digests[together]) - set(packed_before):
            rows = inputs.stored(together, view, number, progress)
            arrays = tuple(np.ascontiguousarray(array) for array in rows.arrays())
            chunks[key] = Chunk(Path(key), tuple(digests[together].tolist()), arrays)


def unpacked(shipment: Shipment) -> None:
    """Use a shipment for the runs of this process."""
    known = shipped_data(shipment.digest)
    if known is None or known.shipment != shipment.name:
        receive(shipment.digest, Shipped(shipment.name, shipment.catalog, ShippedCache(shipment.chunks)))
        forget_inputs()


class ShippedCache(FeatureCache):
    """A store whose rows came from another machine; arrays derived from them are stored on this one."""

    def __init__(self, chunks: dict[str, Chunk]) -> None:
        super().__init__()
        self._chunks = chunks

    def rows(
        self,
        key: str,
        digests: Sequence[str],
        compute: Callable[[list[int]], tuple[np.ndarray, ...]],
        *,
        stage: Stage = SILENT_STAGE,
        description: str = "",
    ) -> Rows:
        chunk = self._chunks.get(key)
        if chunk is None or set(digests) - set(chunk.digests):
            return super().rows(key, digests, compute, stage=stage, description=description)
        stage.reach(stage.total)
        return Rows(digests, [chunk], in_memory=False)  # every process reads Ray's copy
