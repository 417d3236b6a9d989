"""The embedder, trunk and head: one call from images or stored maps to raw embedding rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield.embedder.trunk.blocks import Source, in_blocks
from levelfield.embedder.trunk.trunk import Change, Trunk
from levelfield.geometry import tf32
from levelfield.progress import SILENT_STAGE, Stage
from levelfield.settings import checked

HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Embedder(nn.Module):
    """`inputs` are images (rows, 3, side, side), or the tuple of tensors that `stored` returned for them.

    >>> from levelfield.embedder import backbones
    >>> from levelfield.embedder.head import Head
    >>> trunk = Trunk(backbones.create("resnet18", weights="random"), cut="last-1")
    >>> embedder = Embedder(trunk, Head(trunk.width, 8))
    >>> images = torch.zeros(2, 3, 64, 64)
    >>> embedder(images).shape, torch.equal(embedder(images), embedder(embedder.stored(images)))
    (torch.Size([2, 8]), True)

    codes: "float32", or "binary": outside training every number becomes 1 (above 0) or -1, one bit.
    precision: "bf16" and "fp16" call the network under autocast, to train it; `embed` always computes in float32.
    """

    @checked
    def __init__(
        self,
        trunk: Trunk,
        head: nn.Module,
        *,
        codes: Literal["float32", "binary"] = "float32",
        precision: Literal["float32", "tf32", "bf16", "fp16"] = "float32",
    ) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = head
        self.codes, self.precision = codes, precision
        self.eval()

    def stored(self, images: Tensor) -> tuple[Tensor, ...]:
        """The output below the cut, computed in blocks: bit-identical to the cached values."""
        return (images,) if self.trunk.cut == "tuned" else in_blocks(self.trunk.below, images)

    def features(self, inputs: Tensor | tuple[Tensor, ...], *, change: Change | None = None) -> Tensor:
        """(rows, width): the pooled taps. change: see `Trunk.above`."""
        stored = self.stored(inputs) if isinstance(inputs, Tensor) else inputs
        return self.trunk.above(*stored, change=change)

    def forward(self, inputs: Tensor | tuple[Tensor, ...], *, change: Change | None = None) -> Tensor:
        """(rows, dim): raw embedding rows, not normalised. change: see `Trunk.above`."""
        half = HALVES.get(self.precision)
        device = inputs.device if isinstance(inputs, Tensor) else inputs[0].device
        with nullcontext() if half is None else torch.autocast(device.type, dtype=half):
            return self.coded(self.head(self.features(inputs, change=change)))

    def coded(self, rows: Tensor) -> Tensor:
        """Rows of the head as they are stored and compared. Training rows are not changed."""
        return torch.where(rows > 0, 1.0, -1.0) if self.codes == "binary" and not self.training else rows

    @torch.no_grad()
    def embed(
        self,
        rows: Tensor | tuple[Tensor, ...] | Source | Iterable[Tensor | tuple[Tensor, ...]],
        *,
        from_images: bool = False,
        normalize: bool = False,
        coded: bool = True,
        exact: bool = True,
        stage: Stage = SILENT_STAGE,
    ) -> Tensor:
        """(rows, dim) for any number of rows, in eval mode and in blocks: bits of a row never depend on other rows.

        rows: stored tensors (or a Source, or a loader of them); images if `from_images`. Both give the same bits.
        coded: encode rows as they are compared; otherwise return the raw output of the head, for training.
        exact: pad the last block to its full size. Without it a few images cost less, and their last bits may differ.
        """
        below: Callable[..., tuple[Tensor, ...]] = self.trunk.below if from_images else lambda *stored: stored

        def one_block(*block: Tensor) -> Tensor:
            # `contiguous`: the layout of stored tensors
            embedded = self.head(self.trunk.above(*(part.contiguous() for part in below(*block))))
            embedded = self.coded(embedded) if coded else embedded
            return functional.normalize(embedded, dim=1) if normalize else embedded

        training = self.training
        self.eval()
        try:
            with tf32(False):
                return in_blocks(one_block, rows, padded=exact, stage=stage)[0]
        finally:
            self.train(training)
