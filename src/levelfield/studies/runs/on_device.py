"""Stored features on the device of the network: all of them if they fit into its memory, else batch by batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from levelfield.embedder.trunk.chunks import Rows

STAYS_FREE = 0.75  # of the memory of a GPU: networks, activations and other jobs need it


class OnDevice:
    """Stored rows as tensors on a device: `rows[[3, 1]]`."""

    def __init__(self, rows: Rows, device: str) -> None:
        self._rows, self._device = rows, torch.device(device)
        self._resident = self._all() if self._fit() else None

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, indices: Sequence[int] | np.ndarray) -> tuple[Tensor, ...]:
        if self._resident is None:
            return tuple(self._copied(part) for part in self._rows[indices])
        chosen = torch.from_numpy(np.asarray(indices, dtype=np.int64)).to(self._device, non_blocking=True)
        return tuple(part.index_select(0, chosen) for part in self._resident)

    def _copied(self, part: Tensor) -> Tensor:
        """A copy on the device; on CUDA through pinned memory, so that the host does not wait."""
        pinned = self._device.type == "cuda"
        return (part.pin_memory() if pinned else part).to(self._device, non_blocking=pinned)

    def _all(self) -> tuple[Tensor, ...]:
        return tuple(part.to(self._device) for part in self._rows.tensors())

    def _fit(self) -> bool:
        if self._device.type != "cuda" or not len(self):
            return False
        size = len(self) * sum(part.nbytes for part in self._rows[[0]])
        free, total = torch.cuda.mem_get_info(self._device)
        return bool(free - size >= STAYS_FREE * total)
