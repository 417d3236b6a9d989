"""How training steps are computed: fast depthwise gradients, block by block, compiled."""

from __future__ import annotations

import copy
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from levelfield.embedder import Trunk, backbones
from levelfield.embedder.trunk.depthwise import QuickDepthwise, weight_gradient, with_quick_gradients
from levelfield.randomness import stream


@pytest.mark.parametrize("side", [1, 2, 3, 4, 6])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(3, 1, 1), (5, 1, 2), (5, 2, 2), (5, 3, 2), (7, 1, 3), (7, 2, 3), (5, 1, 3)]
)
def test_weight_gradient_is_that_of_autograd(side: int, kernel: int, stride: int, padding: int) -> None:
    draw = stream(0, "depthwise", side, kernel, stride)
    images = torch.randn(3, 4, side, side, generator=draw, dtype=torch.float64)
    weight = torch.randn(4, 1, kernel, kernel, generator=draw, dtype=torch.float64, requires_grad=True)
    output = nn.functional.conv2d(images, weight, None, stride, padding, groups=4)
    gradient = torch.randn(output.shape, generator=draw, dtype=torch.float64)
    (expected,) = torch.autograd.grad(output, weight, gradient)
    torch.testing.assert_close(weight_gradient(images, gradient, kernel, stride=stride, padding=padding), expected)


@pytest.mark.parametrize("bias", [True, False])
def test_the_replaced_convolution_gives_the_same_bits_forward_and_the_same_gradients(bias: bool) -> None:
    plain = nn.Sequential(nn.Conv2d(6, 6, 5, padding=2, groups=6, bias=bias))
    quick = copy.deepcopy(plain)
    with_quick_gradients(quick)
    assert isinstance(quick[0], QuickDepthwise)
    assert list(quick.state_dict()) == list(plain.state_dict())
    images = torch.randn(4, 6, 2, 2, generator=stream(0, "images"))
    inputs = [images.clone().requires_grad_() for _ in range(2)]
    outputs = [network(x) for network, x in zip((plain, quick), inputs, strict=True)]
    assert torch.equal(*outputs)
    assert type(outputs[1].grad_fn).__name__ == "_QuickBackward"
    for output in outputs:
        output.square().sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
    for one, other in zip(plain.parameters(), quick.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_few_outputs_take_the_quick_way_and_large_maps_and_frozen_weights_the_ordinary_one() -> None:
    quick = nn.Sequential(nn.Conv2d(6, 6, 5, stride=2, groups=6))
    with_quick_gradients(quick)
    assert type(quick(torch.zeros(1, 6, 7, 7)).grad_fn).__name__ == "_QuickBackward"
    assert type(quick(torch.zeros(1, 6, 11, 11)).grad_fn).__name__ == "ConvolutionBackward0"
    quick = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, groups=6))
    with_quick_gradients(quick)
    assert type(quick(torch.zeros(1, 6, 8, 8)).grad_fn).__name__ == "ConvolutionBackward0"
    quick.requires_grad_(False)
    assert not quick(torch.zeros(1, 6, 2, 2)).requires_grad
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert quick.requires_grad_(True)(torch.zeros(1, 6, 2, 2)).dtype == torch.bfloat16


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


def test_a_compiled_step_agrees_and_evaluation_keeps_its_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = copy.deepcopy(backbones.create("test_resnet", weights="random"))
    channels = backbone.network.layer3[-1].conv3.out_channels
    backbone.network.layer4 = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU())  # each operation is seconds to compile
    trunk = Trunk(backbone, cut="last-1", normalize_taps=False)
    stored = trunk.below(torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0)))

    def step() -> list[Tensor]:
        trunk.zero_grad()
        rows = trunk.train().above(*stored)
        rows.square().mean().backward()
        return [
            rows.detach(),
            *(parameter.grad.clone() for _, parameter in trunk.trainable() if parameter.grad is not None),
        ]

    plain, evaluated = step(), trunk.eval().above(*stored)
    trunk.compile_steps()
    called: list[int] = []
    compiled = trunk._compiled
    monkeypatch.setattr(trunk, "_compiled", lambda *given: called.append(len(given)) or compiled(*given))
    for one, other in zip(step(), plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    assert called
    called.clear()
    assert torch.equal(trunk.eval().above(*stored), evaluated)
    assert not called
