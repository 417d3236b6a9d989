"""Conv-4: four blocks of 3x3 convolution, batch norm, ReLU and 2x2 max pooling; for small images, from random weights.

The network of the few-shot literature on Omniglot (Vinyals et al. 2016, Snell et al. 2017): 28 x 28 pixels become 64
numbers. It has no pretrained weights, so a study says `weights: random` and trains all of it (`cut: tuned`).
"""

from __future__ import annotations

from torch import Tensor, nn

from levelfield.embedder.networks._registry import Weights, register
from levelfield.embedder.trunk.stages import Division

WIDTH = 64  # Snell et al. 2017, section 3.1
BLOCKS = 4


@register("conv4", Weights())
class Conv4(nn.Module):
    """RGB images to maps of 64 channels, a sixteenth of their size."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList()
        for channels in (3, *[WIDTH] * (BLOCKS - 1)):
            convolution = nn.Conv2d(channels, WIDTH, kernel_size=3, padding=1, bias=False)
            self.blocks.append(nn.Sequential(convolution, nn.BatchNorm2d(WIDTH), nn.ReLU(), nn.MaxPool2d(2)))

    def division(self) -> Division:
        """Blocks as stages for `cut` and `taps`."""
        return Division(None, tuple((f"blocks.{number}", block) for number, block in enumerate(self.blocks)), None)

    def forward_features(self, images: Tensor) -> Tensor:
        maps = images
        for block in self.blocks:
            maps = block(maps)
        return maps
