from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from levelfield.embedder.trunk.pointwise import QuickPointwise
from levelfield.randomness import stream


def _maps(rows: int = 3, side: int = 2) -> Tensor:
    maps = torch.randn(rows, 64, side, side, generator=stream(0, "maps"))
    return maps.to(memory_format=torch.channels_last)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("side", [1, 2, 5])
def test_same_bits_forward_and_same_gradients_as_the_library(bias: bool, side: int) -> None:
    plain = nn.Conv2d(64, 80, 1, bias=bias).to(memory_format=torch.channels_last)
    quick = QuickPointwise(copy.deepcopy(plain))
    inputs = [_maps(side=side).requires_grad_() for _ in range(2)]
    outputs = [network(maps) for network, maps in zip((plain, quick), inputs, strict=True)]
    assert torch.equal(*outputs)
    assert type(outputs[1].grad_fn).__name__ == "_PointwiseBackward"
    for output in outputs:
        output.square().sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
    for one, other in zip(plain.parameters(), quick.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_gradients_are_right_for_a_gradient_in_another_layout() -> None:
    quick = QuickPointwise(nn.Conv2d(64, 64, 1, bias=False).double())
    maps = _maps().double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: quick(x).contiguous()[:, :2], maps, fast_mode=True)


def test_frozen_weights_autocast_and_other_layouts_take_the_ordinary_way() -> None:
    quick = QuickPointwise(nn.Conv2d(64, 64, 1))
    assert type(quick(_maps().contiguous()).grad_fn).__name__ == "ConvolutionBackward0"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert quick(_maps()).dtype == torch.bfloat16
    quick.requires_grad_(False)
    assert not quick(_maps()).requires_grad


@pytest.mark.parametrize(
    "other",
    [
        nn.Conv2d(64, 64, 3),
        nn.Conv2d(64, 64, 1, stride=2),
        nn.Conv2d(64, 64, 1, padding=1),
        nn.Conv2d(64, 64, 1, groups=2),
        nn.Conv2d(16, 64, 1),
    ],
)
def test_what_is_no_large_matrix_product_is_left_alone(other: nn.Conv2d) -> None:
    assert not QuickPointwise.fits(other)
