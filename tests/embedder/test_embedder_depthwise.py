from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

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


def test_few_outputs_of_a_larger_map_take_the_quick_way_too() -> None:
    quick = nn.Sequential(nn.Conv2d(6, 6, 5, stride=2, groups=6))
    with_quick_gradients(quick)
    assert type(quick(torch.zeros(1, 6, 7, 7)).grad_fn).__name__ == "_QuickBackward"
    assert type(quick(torch.zeros(1, 6, 11, 11)).grad_fn).__name__ == "ConvolutionBackward0"


def test_large_maps_and_frozen_weights_take_the_ordinary_way() -> None:
    quick = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, groups=6))
    with_quick_gradients(quick)
    assert type(quick(torch.zeros(1, 6, 8, 8)).grad_fn).__name__ == "ConvolutionBackward0"
    quick.requires_grad_(False)
    assert not quick(torch.zeros(1, 6, 2, 2)).requires_grad
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert quick.requires_grad_(True)(torch.zeros(1, 6, 2, 2)).dtype == torch.bfloat16


def test_a_copied_convolution_stands_alone() -> None:
    quick = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, groups=6))
    with_quick_gradients(quick)
    other = copy.deepcopy(quick)
    with torch.no_grad():
        other[0].weight.zero_()
    assert quick[0].weight.abs().sum() > 0
