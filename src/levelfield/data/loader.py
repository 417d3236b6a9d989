"""The loader: all images of a network, decoded ahead by worker processes and sent to its device in whole batches.

A batch depends only on its keys, never on the number of workers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from levelfield.data.decoders import decoders
from levelfield.data.images import Picture, opened
from levelfield.data.views.basic import View
from levelfield.distributed.processes import end_with_parent
from levelfield.embedder.trunk.blocks import block_size
from levelfield.errors import LevelfieldError, RunFailed
from levelfield.randomness import numpy_stream

Key: TypeAlias = tuple[int, tuple[int | str, ...]]
"""Position of a picture, and the name of the random stream of its view: seed and names; empty if it draws nothing."""

_BATCH = 64  # images that a worker sends at once: several blocks, as each transfer costs time


class Loader:
    """Batches of pictures under one or several views, on `device`.

    Workers start with the first batch, as many as `decoders` says, and end with the loader.
    """

    def __init__(self, pictures: Sequence[Picture], *views: View, device: torch.device | str = "cpu") -> None:
        self._pictures = _Pictures(pictures, views)
        self._device = torch.device(device)
        self._keys = _Keys()

    def __len__(self) -> int:
        return len(self._pictures.pictures)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        """All pictures in order, in blocks; for views that are not random."""
        keys: list[Key] = [(position, ()) for position in range(len(self))]
        block = block_size(self._device)
        size = max(_BATCH // block, 1) * block
        for batch in self.batches(keys[start : start + size] for start in range(0, max(len(keys), 1), size)):
            yield from zip(*(part.split(block) for part in batch), strict=True)

    def batches(self, keys: Iterable[Sequence[Key]]) -> Iterator[tuple[Tensor, ...]]:
        """A batch for each sequence of keys: one tensor (images, 3, side, side) for each view.

        Keys are requested a few batches ahead. Workers stay alive between two calls.
        """
        self._keys.batches = current = iter(keys)
        try:
            yield from map(self._sent, self._loader)  # a variable would keep each batch until the next one is loaded
        except (RuntimeError, EOFError, OSError) as error:  # the last two: it ended while it sent a batch
            of_a_worker = not isinstance(error, RuntimeError) or str(error).startswith("DataLoader worker")
            if not of_a_worker or not self._loader.num_workers or error is self._keys.error:
                raise
            raise RunFailed(
                "A process that decodes images ended unexpectedly, often due to lack of memory (in a container, of "
                f"/dev/shm); use fewer with --workers, or none with --workers 0. {error}"
            ) from error
        finally:
            if self._keys.batches is current:  # they may refer to this loader, and workers must end as soon as it does
                self._keys.batches = iter(())

    def _sent(self, batch: list[Tensor] | LevelfieldError) -> tuple[Tensor, ...]:
        if isinstance(batch, LevelfieldError):
            raise batch
        return tuple(part.to(self._device, non_blocking=self._device.type == "cuda") for part in batch)

    @cached_property
    def _loader(self) -> DataLoader[Any]:
        workers = decoders(len(self))
        return DataLoader(
            self._pictures,
            batch_size=None,  # a "sample" is a whole batch
            sampler=self._keys,
            num_workers=workers,
            pin_memory=self._device.type == "cuda",
            worker_init_fn=end_with_parent,
            multiprocessing_context="fork" if workers and sys.platform == "linux" else None,
            persistent_workers=workers > 0,
            generator=torch.Generator(),  # the seeds of workers, which nobody uses, are not drawn from torch's own
        )


class _Keys:
    """The keys of the batches to load; can be replaced while workers are alive."""

    batches: Iterator[Sequence[Key]] = iter(())
    error: Exception | None = None
    """Raised by who makes the keys."""

    def __iter__(self) -> Iterator[Sequence[Key]]:
        return self

    def __next__(self) -> Sequence[Key]:
        try:
            return next(self.batches)
        except (RuntimeError, EOFError, OSError) as error:
            self.error = error
            raise


class _Pictures(Dataset[list[Tensor] | LevelfieldError]):
    """Reads a batch. An error is returned: DataLoader would wrap its message into the traceback of the worker."""

    def __init__(self, pictures: Sequence[Picture], views: tuple[View, ...]) -> None:
        self.pictures, self._views = pictures, views

    def __getitem__(self, keys: Sequence[Key]) -> list[Tensor] | LevelfieldError:
        blank = () if keys else tuple(view(Image.new("RGB", (8, 8)), None) for view in self._views)
        try:
            batch: list[Tensor] = default_collate([self._read(*key) for key in keys] or [blank])
        except LevelfieldError as error:
            return error
        return batch if keys else [part[:0] for part in batch]

    def _read(self, position: int, stream: tuple[int | str, ...]) -> tuple[Tensor, ...]:
        picture = self.pictures[position]
        images = {side: opened(picture, decoded=side) for side in {view.decoded for view in self._views}}
        return tuple(
            view(images[view.decoded], numpy_stream(*stream) if stream else None)  # type: ignore[arg-type]
            for view in self._views
        )
