"""What the use of a network costs is counted, not timed."""

from __future__ import annotations

from torch import Tensor, nn

from levelfield.embedder import Backbone, Trunk
from levelfield.embedder.embedder import network_cost
from levelfield.embedder.trunk.stages import Division


class TwoLayers(nn.Module):
    """Two 1x1 convolutions without a bias: 3 -> 4 -> 5 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 1, bias=False), nn.Conv2d(4, 5, 1, bias=False)

    def division(self) -> Division:
        return Division(None, (("first", self.first), ("second", self.second)), None)

    def forward_features(self, images: Tensor) -> Tensor:
        return self.second(self.first(images))


def test_weights_and_operations_are_those_of_the_used_stages() -> None:
    made = Backbone("two", TwoLayers(), ("first", "second"), (0.5,) * 3, (0.5,) * 3, "bicubic", 8, "digest")
    whole = network_cost(Trunk(made, cut="last-1", image=8), 8)
    assert (whole.weights, whole.operations) == (3 * 4 + 4 * 5, 2 * 64 * (3 * 4 + 4 * 5))
    half = network_cost(Trunk(made, cut="frozen", taps=["first"], image=8), 8)
    assert (half.weights, half.operations) == (3 * 4, 2 * 64 * 3 * 4)
