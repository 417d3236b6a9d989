"""The feed: batches in the planned order, from cached rows or freshly decoded images.

The view of an image depends only on (seed, "view", epoch, image, occurrence), so that neither workers nor interruptions
change the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import chain, count, pairwise, tee
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield.batching import Batching, report
from levelfield.batching._decks import occurrences
from levelfield.data.loader import Key, Loader
from levelfield.distributed.ranks import ALONE, Ranks
from levelfield.errors import BadInput
from levelfield.labels import on_device, to_device
from levelfield.methods import Batch, Inputs
from levelfield.objectives import Objective
from levelfield.randomness import numpy_stream

CPU = torch.device("cpu")


class PlannedBatch(NamedTuple):
    """Indices of the training images in a batch, and how often each occurred before in this epoch."""

    epoch: int
    step: int
    positions: np.ndarray
    occurrences: np.ndarray


class Source(Protocol):
    """Source of the inputs of each batch."""

    def batches(self, plans: Iterator[PlannedBatch]) -> Iterator[Inputs]: ...


@dataclass(eq=False)
class Feed:
    """Batches of a run, from any step.

    ranks: the processes that share the run. Every process plans the same batches and gets the inputs of its own share
    of each; labels, indices and roles are those of the whole batch.
    embed: raw rows of all training images in the order of the data, in evaluation mode and under the test view, for a
    batching with a memory. unit_rows: whether that memory stores rows of length 1 (see `sees_unit_rows`).
    """

    source: Source
    batching: Batching
    labels: np.ndarray
    _: KW_ONLY
    device: torch.device = CPU
    names: Sequence[str] = ()
    embed: Callable[[], np.ndarray] | None = None
    unit_rows: bool = False
    ranks: Ranks = ALONE
    planning: float = field(default=0.0, init=False)  # seconds, including filling a memory

    def __post_init__(self) -> None:
        self._labels = torch.from_numpy(np.ascontiguousarray(self.labels, dtype=np.int64))
        self._planned: np.ndarray | None = None

    def batches(self, start: int) -> Iterator[Batch]:
        """Endless iterator over batches from global step `start`."""
        length = len(self.batching)
        epochs = map(self._epoch, chain([start], count(start - start % length + length, length)))
        # A memory is updated until the last step of an epoch, so the next plan must not be requested earlier.
        for plans in epochs if self.batching.needs_memory else [chain.from_iterable(epochs)]:
            yield from self._fed(plans)

    def _fed(self, plans: Iterator[PlannedBatch]) -> Iterator[Batch]:
        plans, ahead = tee(plans)  # a source with workers requests plans ahead of their batches
        shares = (self._share(planned) for planned in ahead)
        for planned, inputs in zip(plans, self.source.batches(shares), strict=True):
            epoch, step, positions, _ = planned
            labels = self._labels.index_select(0, torch.from_numpy(positions))
            labels = labels if self.device.type == "cpu" else on_device(labels, self.device)
            send = partial(to_device, device=self.device)
            moved = send(inputs) if isinstance(inputs, Tensor) else tuple(map(send, inputs))
            yield Batch(moved, labels, positions, self.batching.roles, epoch, step)

    def _share(self, planned: PlannedBatch) -> PlannedBatch:
        """The images of a batch that this process embeds."""
        share = self.ranks.share(len(planned.positions))
        return planned._replace(positions=planned.positions[share], occurrences=planned.occurrences[share])

    def epoch_facts(self, step: int) -> dict[str, float]:
        """Statistics of the last planned epoch, or of the epoch of `step` if none was planned."""
        plan = self.batching.plan(step // len(self.batching)) if self._planned is None else self._planned
        summary = report(self.batching.labels, plan).summary()
        return summary | {"repeating_classes": self.batching.repeating, "skipped_classes": self.batching.skipped}

    def observe(self, batch: Batch, rows: Tensor | None) -> None:
        """Pass the embeddings of a step to a batching with a memory."""
        if not self.batching.needs_memory:
            return
        if rows is None or len(rows) != len(batch.indices):
            came = "no embedding" if rows is None else f"{len(rows)} embeddings"
            raise BadInput(
                f"Batching '{self.batching.name}' needs an embedding of each of the {len(batch.indices)} "
                f"images of a batch, but the method's step returned {came}."
            )
        self.batching.observe(batch.indices, self._memory_rows(rows))

    def name(self, batch: Batch, most: int = 5) -> str:
        """Names of the first images of a batch, as paths if known."""
        shown = [str(self.names[i]) if len(self.names) else str(int(i)) for i in batch.indices[:most]]
        return ", ".join(shown) + (", ..." if len(batch.indices) > most else "")

    def _epoch(self, step: int) -> Iterator[PlannedBatch]:
        """The rest of an epoch from `step`; planned when its first batch is requested."""
        epoch, offset = divmod(step, len(self.batching))
        began = time.perf_counter()
        if self.batching.is_due(epoch):
            if self.embed is None:
                raise BadInput(
                    f"Batching '{self.batching.name}' plans from embeddings of all images: pass `embed` to the feed to "
                    "compute them."
                )
            self.batching.fill(self._memory_rows(torch.from_numpy(self.embed())))
        plan = self.batching.plan(epoch)
        self._planned = plan
        before = occurrences(plan.ravel()).reshape(plan.shape)
        self.planning += time.perf_counter() - began
        for number, (positions, seen) in enumerate(zip(plan[offset:], before[offset:], strict=True)):
            yield PlannedBatch(epoch, step + number, positions, seen)

    def _memory_rows(self, rows: Tensor) -> np.ndarray:
        return (functional.normalize(rows.float(), dim=1) if self.unit_rows else rows.float()).cpu().numpy()


class StoredRows:
    """Cached outputs below the cut: `rows[view][positions]` returns the stored tensors."""

    def __init__(self, views: Sequence[Any], *, seed: int) -> None:
        self._views = views
        self._seed = seed

    def batches(self, plans: Iterator[PlannedBatch]) -> Iterator[Inputs]:
        for planned in plans:
            positions = planned.positions
            if len(self._views) == 1:
                yield self._views[0][positions]
                continue
            chosen = view_numbers(self._seed, planned, len(self._views), len(self._views[0]))
            order = np.argsort(chosen, kind="stable")
            cuts = np.searchsorted(chosen[order], np.arange(len(self._views) + 1))
            parts = [self._views[v][positions[order[a:b]]] for v, (a, b) in enumerate(pairwise(cuts)) if b > a]
            joined = [torch.cat(tensors) for tensors in zip(*parts, strict=True)]
            back = to_device(torch.from_numpy(np.argsort(order, kind="stable")), joined[0].device)
            yield tuple(tensor.index_select(0, back) for tensor in joined)


class Images:
    """Images decoded for each batch. views: number of cached views of an image; 0: a new view each time.

    identities: of the images; they name the cached views.
    """

    def __init__(self, loader: Loader, *, seed: int, views: int, identities: Sequence[str]) -> None:
        self._loader, self._seed, self._views, self._identities = loader, seed, views, identities

    def batches(self, plans: Iterator[PlannedBatch]) -> Iterator[Inputs]:
        return map(itemgetter(0), self._loader.batches(map(self._keys, plans)))

    def _keys(self, planned: PlannedBatch) -> list[Key]:
        positions, before = planned.positions.tolist(), planned.occurrences.tolist()
        if not self._views:
            pairs = zip(positions, before, strict=True)
            return [(position, (self._seed, "view", planned.epoch, position, seen)) for position, seen in pairs]
        numbers = view_numbers(self._seed, planned, self._views, len(self._loader)).tolist()
        return [(k, cached_view(number, self._identities[k])) for k, number in zip(positions, numbers, strict=True)]


def sees_unit_rows(objective: nn.Module | None) -> bool:
    """Whether an objective uses rows of length 1. A user's own loss gets the raw embeddings."""
    return bool(getattr(objective, "normalize", isinstance(objective, Objective)))


def cached_view(number: int, identity: str) -> tuple[int, str, int, str]:
    """Random stream of an image's cached view: the same for every seed, so that all runs share the cached rows."""
    return 0, "view", number, identity


def view_numbers(seed: int, planned: PlannedBatch, views: int, count: int) -> np.ndarray:
    """Index of the cached view of each entry of a batch; a repeated image gets the next view."""
    if views == 1:
        return np.zeros(len(planned.positions), dtype=np.int64)
    table = numpy_stream(seed, "view", planned.epoch).integers(views, size=count)
    seen: np.ndarray = (table[planned.positions] + planned.occurrences) % views
    return seen
