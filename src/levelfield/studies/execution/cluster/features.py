"""Features below the cut as Ray objects, for nodes without the images (`--ship-features`).

The driver computes them once. On a node, all processes read the same copy in shared memory.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from levelfield.data import Catalog
from levelfield.embedder.trunk.cache import FeatureCache
from levelfield.embedder.trunk.chunks import Chunk, Rows
from levelfield.errors import BadSpecification
from levelfield.progress import SILENT_STAGE, Progress, Stage
from levelfield.studies.runs.inputs import RunInputs, inputs_for
from levelfield.studies.runs.run import Options
from levelfield.studies.runs.shared import forget_inputs
from levelfield.studies.runs.shipped import Shipped, receive, shipped_data
from levelfield.studies.runs.spec import PlannedRun


@dataclass(frozen=True)
class Table:
    """Features of images under one view, by the digest of the image."""

    digests: tuple[str, ...]
    arrays: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Shipment:
    """Everything that the runs on one dataset need of its images."""

    name: str
    digest: str
    catalog: Catalog
    tables: dict[str, Table]


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
    tables: dict[str, dict[str, Table]] = {}
    catalogs: dict[str, Catalog] = {}
    for run in runs:
        if run.spec.joined:
            continue
        torch.set_num_threads(run.spec.conditions.threads)
        inputs = inputs_for(run.spec, options.cache_folder, options.device)
        digest = run.spec.data_digest
        catalogs.setdefault(digest, inputs.catalog)
        _add(tables.setdefault(digest, {}), inputs, progress)
    return {
        digest: Shipment(secrets.token_hex(8), digest, catalog, tables[digest]) for digest, catalog in catalogs.items()
    }


def unpacked(shipment: Shipment) -> None:
    """Use a shipment for the runs of this process."""
    known = shipped_data(shipment.digest)
    if known is not None and known.shipment == shipment.name:
        return
    receive(shipment.digest, Shipped(shipment.name, shipment.catalog, ShippedCache(shipment.tables)))
    forget_inputs()


class ShippedCache(FeatureCache):
    """A store whose rows came from another machine; arrays derived from them are stored on this one."""

    def __init__(self, tables: dict[str, Table]) -> None:
        super().__init__()
        self._chunks = {key: Chunk(Path(key), one.digests, one.arrays) for key, one in tables.items()}

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


def _add(tables: dict[str, Table], inputs: RunInputs, progress: Progress) -> None:
    """Add the features of all images that a run reads, under each of its views."""
    fold, (training, test) = inputs.fold, inputs.views
    views: list[tuple[Any, int, np.ndarray]] = [
        (test, 0, np.concatenate([fold.train, fold.validation, fold.test])),
    ]
    for number in range(max(1, inputs.conditions.views) if training.random else 1):
        views.append((training, number, fold.train))
    for view, number, images in views:
        key, digests = inputs.key_of(view, number), [inputs.catalog.digests[i] for i in images]
        known = tables.get(key)
        if known is not None and not set(digests) - set(known.digests):
            continue
        both = dict.fromkeys([*(known.digests if known is not None else ()), *digests])
        positions = {digest: i for i, digest in enumerate(inputs.catalog.digests)}
        rows = inputs.stored(np.array([positions[digest] for digest in both]), view, number, progress)
        tables[key] = Table(tuple(both), tuple(np.ascontiguousarray(array) for array in rows.arrays()))
