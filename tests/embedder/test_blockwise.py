"""A network computed block by block: the same bits with a smaller graph."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor

from levelfield.embedder import Trunk, backbones
from levelfield.randomness import stream


def trained(*, blockwise: bool) -> tuple[dict[str, Tensor], int]:
    """Gradients and BatchNorm's statistics after one step with the whole batch; bytes that the graph keeps of maps."""
    trunk = Trunk(backbones.create("resnet18", weights="random"), cut="tuned", batch_norm="train").train()
    trunk.blockwise = nullcontext if blockwise else None
    weights = {parameter.untyped_storage().data_ptr() for parameter in trunk.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = 0 if storage.data_ptr() in weights else storage.nbytes()
        return tensor

    images = torch.randn(4, 3, 64, 64, generator=stream(0))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        features = trunk.above(images)
    features.square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in trunk.named_parameters()}
    return gradients | {name: buffer.clone() for name, buffer in trunk.named_buffers()}, sum(kept.values())


def test_blocks_are_computed_again_to_the_same_bits_with_statistics_updated_once() -> None:
    (expected, whole), (found, kept) = trained(blockwise=False), trained(blockwise=True)
    for name, value in expected.items():
        assert torch.equal(found[name], value), name
    assert {int(value) for name, value in found.items() if name.endswith("num_batches_tracked")} == {1}
    assert kept < 0.5 * whole
