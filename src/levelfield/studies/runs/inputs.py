"""The inputs of a run: data, fold and untrained trunk. Runs of a process share them, read-only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelfield import embedder as networks  # on first use: a report reads data and needs no network
from levelfield.data import Catalog, protocols
from levelfield.data.loader import Key, Loader
from levelfield.data.views import StepsView, TestView, View, steps_view, train_view
from levelfield.embedder import FeatureCache, Rows
from levelfield.embedder.devices import key_of
from levelfield.embedder.trunk.blocks import block_size, in_blocks
from levelfield.files.reading import digest
from levelfield.methods import TrainingFeatures
from levelfield.progress import Progress
from levelfield.randomness import numpy_stream
from levelfield.studies.runs.shared import SharedInputs, shared_inputs
from levelfield.studies.runs.spec import RunSpec
from levelfield.studies.specification.choices import Data, ProtocolChoice
from levelfield.training import Conditions
from levelfield.training.feed import Images, Source, StoredRows, cached_view

_OF_THE_INPUTS = (  # conditions that determine the inputs
    "backbone", "weights", "cut", "taps", "pooling", "normalize_taps", "batch_norm", "channels_last", "image",
    "test_image", "crop",
    "augment", "train_view", "test_view", "views", "cache", "threads",
)  # fmt: skip
STAYS_FREE = 0.75  # of the memory of a GPU: networks, activations and other jobs need it
_KEPT = 2  # inputs with their networks and features in memory; a study that varies its network has many


@dataclass(frozen=True)
class RunInputs:
    """Data, fold and trunk of a run, with access to the features below the cut."""

    data: Data
    protocol: ProtocolChoice
    fold_number: int
    conditions: Conditions
    cache_folder: Path | None
    device: str
    data_digest: str = ""
    shared: SharedInputs = field(default_factory=SharedInputs, compare=False, repr=False)
    # shared by the inputs of all folds
    _folds: dict[int, RunInputs] = field(default_factory=dict, compare=False, repr=False)
    _opened: dict[str, Rows | OnDevice] = field(default_factory=dict, compare=False, repr=False)

    def __hash__(self) -> int:
        # of texts, since conditions contain dictionaries (the steps of a view)
        return hash((self.data.model_dump_json(), self.fold_number, self.conditions.model_dump_json(), self.device))

    @cached_property
    def catalog(self) -> Catalog:
        return self.shared.catalog(self.data, self.data_digest)

    def with_fold(self, number: int) -> RunInputs:
        """The inputs of another fold, which share images, trunk and opened rows."""
        self._folds.setdefault(self.fold_number, self)
        if number not in self._folds:
            other = replace(self, fold_number=number)
            vars(other).update(_backbone=self._backbone, frozen_trunk=self.frozen_trunk)
            self._folds[number] = other
        return self._folds[number]

    @cached_property
    def fold(self) -> protocols.Fold:
        return self.shared.divided(self.catalog, self.protocol)[self.fold_number]

    @cached_property
    def train_labels(self) -> np.ndarray:
        return np.unique(self.catalog.labels[self.fold.train], return_inverse=True)[1].astype(np.int64)

    @property
    def num_classes(self) -> int:
        return int(self.train_labels.max()) + 1

    @cached_property
    def cache(self) -> FeatureCache:
        return FeatureCache(self.cache_folder)

    @cached_property
    def _backbone(self) -> networks.backbones.Backbone:
        return networks.backbones.create(self.conditions.backbone, weights=self.conditions.own_weights)

    @cached_property
    def frozen_trunk(self) -> networks.Trunk:
        """A trunk that is never trained: computes the stored features and the start features."""
        return self.new_trunk()

    @property
    def width(self) -> int:
        return self.frozen_trunk.width

    @cached_property
    def views(self) -> tuple[View, TestView | StepsView]:
        c, b = self.conditions, self._backbone
        shared: dict[str, Any] = {"image": c.image, "mean": b.mean, "std": b.std, "interpolation": b.interpolation}
        tested = {**shared, "image": c.tested_side}
        test = TestView(crop=c.crop, **tested) if c.test_view is None else steps_view(c.test_view, **tested)
        if c.train_view is not None:
            return steps_view(c.train_view, **shared), test
        if c.augment != "none":
            return train_view(c.augment, crop=c.crop, **shared), test
        return (test if c.image == c.tested_side else TestView(crop=c.crop, **shared)), test

    @cached_property
    def network_cost(self) -> dict[str, int]:
        """Weights of the network, and its operations for one image."""
        return self.frozen_trunk.cost(self.conditions.tested_side)

    @property
    def is_cached(self) -> bool:
        return self.conditions.cache and self.conditions.cut != "tuned"

    def checked_trunk(self) -> networks.Trunk:
        """A trunk on the CPU that has run once; raises for an unknown backbone, tap, cut or weights file."""
        trunk = self.frozen_trunk if self.device == "cpu" else self.new_trunk("cpu")
        _ = trunk.width
        return trunk

    def new_trunk(self, device: str | None = None) -> networks.Trunk:
        """A new trunk with the start weights, to be trained."""
        c = self.conditions
        return networks.Trunk(
            self._backbone,
            cut=c.cut,
            taps=c.taps,
            pooling=c.pooling,
            normalize_taps=c.normalize_taps,
            channels_last=c.channels_last,
            batch_norm=c.batch_norm,
            image=c.image,
        ).to(device or self.device)

    def stored(self, indices: np.ndarray, view: View, number: int, progress: Progress) -> Rows | OnDevice:
        """Features below the cut of these images under one view, cached or computed now; on a GPU as its tensors."""
        digests = [self.catalog.digests[i] for i in indices]
        images = "\n".join(digests)
        known = f"{self.key_of(view, number)} {digest(images, size=8)}"
        if known in self._opened:
            return self._opened[known]

        stage = progress.stage("features", len(set(digests)))
        loader, size = self._loader(indices, view), block_size(torch.device(self.device))

        def compute(positions: Sequence[int]) -> tuple[np.ndarray, ...]:
            keys: list[Key] = [(p, cached_view(number, digests[p]) if view.random else ()) for p in positions]
            blocks = loader.batches(keys[start : start + size] for start in range(0, len(keys), size))
            parts = in_blocks(self.frozen_trunk.below, blocks, stage=stage)
            return tuple(part.cpu().numpy() for part in parts)

        rows = self.cache.rows(self.key_of(view, number), digests, compute, stage=stage)
        self._opened[known] = rows if torch.device(self.device).type == "cpu" else OnDevice(rows, self.device)
        return self._opened[known]

    def missing(self, indices: np.ndarray, view: View, number: int) -> int:
        """How many of these images have no stored features under one view."""
        return len(self.cache.absent(self.key_of(view, number), [self.catalog.digests[i] for i in indices]))

    def key_of(self, view: View, number: int) -> str:
        return f"{self.frozen_trunk.key} | {view.key} | {f'view {number}' if view.random else 'plain'}"

    @cached_property
    def features_key(self) -> str:
        """A key of everything that determines the start features of the training images."""
        trained = digest("\n".join(self.catalog.digests[i] for i in self.fold.train), size=8)
        c, b = self.conditions, self._backbone
        network = f"{b.name} {b.weights_digest} channels_last={c.channels_last} {key_of(self.device)}"
        return f"{network} {self.views[1].key} {c.taps} {c.pooling} {c.normalize_taps} cut={c.cut} {trained}"

    def source(self, seed: int, progress: Progress) -> Source:
        view = self.views[0]
        if self.is_cached:
            count = max(1, self.conditions.views) if view.random else 1
            return StoredRows([self.stored(self.fold.train, view, k, progress) for k in range(count)], seed=seed)
        return Images(
            self._loader(self.fold.train, view),
            seed=seed,
            views=self.conditions.views if view.random else 1,
            identities=[self.catalog.digests[i] for i in self.fold.train],
        )

    def embed(
        self,
        embedder: networks.Embedder,
        indices: np.ndarray,
        progress: Progress,
        text: str = "embedding",
        *,
        coded: bool = True,
    ) -> np.ndarray:
        """Raw embeddings of these images under the test view, in blocks of fixed size. coded: see `Embedder.embed`."""
        cached, view = self.is_cached, self.views[1]
        rows: Any = self.stored(indices, view, 0, progress) if cached else self._loader(indices, view)
        stage = progress.stage(text, len(indices))
        return embedder.embed(rows, from_images=not cached, coded=coded, stage=stage).cpu().numpy()

    def start_features(self, progress: Progress, *, most: int | None = None) -> TrainingFeatures:
        """most: of that many training images, drawn at random."""
        frozen = networks.Embedder(self.frozen_trunk, torch.nn.Identity())
        embed, train, labels = self.embed, self.fold.train, self.train_labels
        if most is not None:
            drawn = np.sort(numpy_stream(0, "start features").permutation(len(train))[:most])
            train, labels = train[drawn], labels[drawn]
        return TrainingFeatures(self.width, labels, lambda: embed(frozen, train, progress, "start features"))

    def _loader(self, indices: np.ndarray, view: View) -> Loader:
        return Loader([self.catalog.paths[i] for i in indices], view, device=self.device)


class OnDevice:
    """Stored rows as tensors on a device, `rows[[3, 1]]`: all of them if they fit into its memory, else each batch."""

    def __init__(self, rows: Rows, device: str) -> None:
        self._rows, self._device = rows, torch.device(device)
        self._resident = tuple(part.to(self._device) for part in rows.tensors()) if self._fit() else None

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, indices: Sequence[int] | np.ndarray) -> tuple[Tensor, ...]:
        if self._resident is None:
            if self._device.type != "cuda":
                return tuple(part.to(self._device) for part in self._rows[indices])
            # through pinned memory, so that the host does not wait
            return tuple(part.pin_memory().to(self._device, non_blocking=True) for part in self._rows[indices])
        positions = torch.from_numpy(np.asarray(indices, dtype=np.int64)).to(self._device, non_blocking=True)
        return tuple(part.index_select(0, positions) for part in self._resident)

    def _fit(self) -> bool:
        if self._device.type != "cuda" or not len(self):
            return False
        size = len(self) * sum(part.nbytes for part in self._rows[[0]])
        free, total = torch.cuda.mem_get_info(self._device)
        return bool(free - size >= STAYS_FREE * total)


def inputs_for(spec: RunSpec, cache_folder: Path | None, device: str, shared: SharedInputs | None = None) -> RunInputs:
    """The inputs of a run, which runs that differ only in method, seed, member or optimiser share. shared: by default
    that of the study which this process carries out."""
    shared = shared or shared_inputs()
    conditions = Conditions(**{key: getattr(spec.conditions, key) for key in _OF_THE_INPUTS})
    protocol, data = spec.protocol.model_dump_json(), spec.data.model_dump_json()
    key = (data, spec.data_digest, protocol, conditions.model_dump_json(), cache_folder, device)
    inputs = shared.inputs.pop(key, None)
    if inputs is None:
        inputs = RunInputs(spec.data, spec.protocol, 0, conditions, cache_folder, device, spec.data_digest, shared)
    shared.inputs[key] = inputs  # the last one in use
    while len(shared.inputs) > _KEPT:
        shared.inputs.pop(next(iter(shared.inputs)))
    return inputs.with_fold(spec.fold or 0)


def check_trunk(conditions: Conditions) -> networks.Trunk:
    """Build the trunk once, to find an unknown backbone, tap, cut or weights file before training."""
    return RunInputs(Data(name="-"), ProtocolChoice(), 0, conditions, None, "cpu").checked_trunk()
