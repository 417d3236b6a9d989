"""Conv-4: the size that the literature gives, and stages that make up the network."""

from __future__ import annotations

import pytest
import torch

from levelfield.embedder import Trunk, backbones
from levelfield.errors import LevelfieldError


def test_it_has_the_parameters_of_the_literature():
    network = backbones.create("conv4", weights="random").network
    convolutions = 3 * 64 * 9 + 3 * (64 * 64 * 9)
    norms = 4 * 2 * 64
    assert sum(one.numel() for one in network.parameters()) == convolutions + norms


def test_the_stages_in_a_row_are_the_network():
    backbone = backbones.create("conv4", weights="random")
    images = torch.randn(3, 3, 28, 28, generator=torch.Generator().manual_seed(0))
    expected = torch.nn.functional.normalize(backbone.network.forward_features(images).mean(dim=(2, 3)))
    (found,) = Trunk(backbone, cut="frozen", taps=["blocks.3"], image=28).below(images)
    torch.testing.assert_close(found, expected)


def test_the_same_random_weights_every_time():
    first, second = (backbones.create("conv4", weights="random").network.state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_without_weights_the_message_says_what_to_write():
    with pytest.raises(LevelfieldError, match="weights: random"):
        backbones.create("conv4")
