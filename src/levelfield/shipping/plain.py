"""A model as one plain torch network, without the blocks, counters and shared stores of training."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield.embedder import Embedder, Ensemble, Model
from levelfield.errors import BadInput
from levelfield.shipping.description import View

Nest: TypeAlias = "int | tuple[Nest, ...]"


class PlainNetwork(nn.Module):
    """images (batch, 3, side, side) -> raw rows (batch, dim), for any batch. A copy: the model stays as it is.

    Members of an ensemble with the same layers below the cut share them.
    """

    def __init__(self, model: Model | Ensemble) -> None:
        super().__init__()
        models = (model,) if isinstance(model, Model) else model.models
        self.owners = [0] if isinstance(model, Model) else [owner for _, owner in model.shared_below]
        self.nest = _nest(model, iter(range(len(models))))
        self.embedders: Sequence[Embedder] = nn.ModuleList(  # type: ignore[assignment]
            copy.deepcopy(one.embedder) for one in models
        )
        for number, (embedder, owner) in enumerate(zip(self.embedders, self.owners, strict=True)):
            if owner != number:
                for piece in (prefix.split(".")[1] for prefix in embedder.trunk.frozen_prefixes):
                    embedder.trunk.pieces[piece] = self.embedders[owner].trunk.pieces[piece]
        side = common_view(model).image
        for module in self.modules():
            # a vision transformer resamples its positions for every batch, with an operator that few formats have
            if getattr(module, "dynamic_img_size", False) and callable(resize := getattr(module, "set_input_size", 0)):
                resize(img_size=(side, side))
        self.eval().requires_grad_(False)
        _fix_masks(self, side)

    def forward(self, images: Tensor) -> Tensor:
        below: dict[int, tuple[Tensor, ...]] = {}
        rows = []
        for embedder, owner in zip(self.embedders, self.owners, strict=True):
            if owner not in below:
                below[owner] = embedder.trunk.below(images)
            rows.append(embedder.coded(embedder.head(embedder.trunk.above(*below[owner]))))
        return _joined(self.nest, rows)


def _fix_masks(network: nn.Module, side: int) -> None:
    """Compute the masks of shifted windows (Swin) once: they depend on the size of the map alone, and computing them
    for every batch needs operators that few formats have."""
    blocks = [module for module in network.modules() if getattr(module, "dynamic_mask", False)]

    def fix(block: Any, inputs: tuple[Tensor, ...]) -> None:
        lengths = inputs[0].shape[1:3]
        sides = [-(-length // size) * size for length, size in zip(lengths, block.window_size, strict=True)]  # padded
        mask = block.get_attn_mask(inputs[0].new_zeros(1, *sides, 1))
        vars(block).pop("attn_mask", None)
        block.register_buffer("attn_mask", mask, persistent=False)
        block.dynamic_mask = False
        # ONNX rolls by less than a length only
        block.shift_size = tuple(shift % length for shift, length in zip(block.shift_size, lengths, strict=True))

    if blocks:
        hooks = [block.register_forward_pre_hook(fix) for block in blocks]
        with torch.no_grad():
            network(torch.zeros(1, 3, side, side))
        for hook in hooks:
            hook.remove()


def common_view(model: Model | Ensemble) -> View:
    """The test view of a model, as plain data can describe it."""
    view = model.view
    if not isinstance(view, View):
        raise BadInput(f"A view of the class {type(view).__name__} cannot be described beside an exported model.")
    return view


def noise(view: View, count: int) -> Tensor:
    """Normalised images of random pixels."""
    return torch.randn(count, 3, view.image, view.image, generator=torch.Generator().manual_seed(0))


def _nest(model: Model | Ensemble, numbers: Iterator[int]) -> Nest:
    """The numbers of the single models, in the brackets of the ensembles that join them."""
    return next(numbers) if isinstance(model, Model) else tuple(_nest(one, numbers) for one in model.members)


def _joined(nest: Nest, rows: list[Tensor]) -> Tensor:
    """Like `evaluation.joined`: unit rows of the members side by side."""
    if isinstance(nest, int):
        return rows[nest]
    return torch.cat([functional.normalize(_joined(one, rows), dim=1) for one in nest], dim=1)
