"""BN-Inception (Ioffe and Szegedy 2015) as its Caffe model: the trunk of MLRC and of most papers before ResNet-50.

Its public weights expect BGR values of 0..255 minus (104, 117, 128). A view gives RGB minus a mean, divided by a
standard deviation; CONFIG therefore holds both for RGB in 0..1, and the network itself reverses the channels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from levelfield.embedder.networks._registry import Weights, register
from levelfield.embedder.trunk.stages import Division
from levelfield.errors import BadSpecification

CONFIG: dict[str, Any] = {
    "input_size": (3, 224, 224),
    "mean": (128 / 255, 117 / 255, 104 / 255),
    "std": (1 / 255, 1 / 255, 1 / 255),
    "interpolation": "bilinear",
    "classifier": "last_linear",
}


class Widths(NamedTuple):
    """Channels of one block: the 1x1 branch, the 3x3, the double 3x3 (each with its reduction), the pooled one.

    pool: "average", "max", or "halve": max with stride 2, also in the other two branches, without 1x1 convolutions.
    """

    name: str
    pointwise: int
    three: tuple[int, int]
    double: tuple[int, int]
    pool: str
    projected: int

    @property
    def out(self) -> int:
        return self.pointwise + self.three[1] + self.double[1] + self.projected


BLOCKS = (
    Widths("3a", 64, (64, 64), (64, 96), "average", 32),
    Widths("3b", 64, (64, 96), (64, 96), "average", 64),
    Widths("3c", 0, (128, 160), (64, 96), "halve", 0),
    Widths("4a", 224, (64, 96), (96, 128), "average", 128),
    Widths("4b", 192, (96, 128), (96, 128), "average", 128),
    Widths("4c", 160, (128, 160), (128, 160), "average", 128),
    Widths("4d", 96, (128, 192), (160, 192), "average", 128),
    Widths("4e", 0, (128, 192), (192, 256), "halve", 0),
    Widths("5a", 352, (192, 320), (160, 224), "average", 128),
    Widths("5b", 352, (192, 320), (192, 224), "max", 128),
)


def renamed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of the public weights file, which has a flat list of layers, under the names used here.

    Of a batch norm, the first releases of the file have (1, channels) where PyTorch has (channels,).
    """
    patterns = ((r"^(conv[12]_)", r"entrance.\1"), (r"^(inception_\d[a-e])_", r"\1."))
    tensors_here = {}
    for name, tensor in tensors.items():
        for pattern, replacement in patterns:
            name = re.sub(pattern, replacement, name)
        tensors_here[name] = tensor.flatten() if "_bn." in name and tensor.ndim else tensor
    return tensors_here


@register("bninception", Weights(file="bn_inception-52deb4733.pth", renamed=renamed))
class BNInception(nn.Module):
    """RGB images, normalised by CONFIG, to maps of 1024 channels; without the classifier of the public file."""

    def __init__(self) -> None:
        super().__init__()
        self.pretrained_cfg = dict(CONFIG)
        self.entrance = _Entrance()
        width = 192
        for block in BLOCKS:
            self.add_module(f"inception_{block.name}", Inception(width, block))
            width = block.out if block.pool != "halve" else block.out + width

    @property
    def stages(self) -> tuple[tuple[str, nn.Module], ...]:
        """The ten blocks, by name."""
        names = [f"inception_{block.name}" for block in BLOCKS]
        return tuple((name, self.get_submodule(name)) for name in names)

    def division(self) -> Division:
        return Division(self.entrance, self.stages, None)

    def forward_features(self, images: Tensor) -> Tensor:
        maps: Tensor = self.entrance(images)
        for _, stage in self.stages:
            maps = stage(maps)
        return maps


class Inception(nn.Module):
    """One block of parallel branches."""

    def __init__(self, width: int, block: Widths) -> None:
        super().__init__()
        self.block = block
        stride = 2 if block.pool == "halve" else 1
        if block.pointwise:
            _add(self, "1x1", width, block.pointwise)
        _add(self, "3x3_reduce", width, block.three[0])
        _add(self, "3x3", *block.three, stride=stride)
        _add(self, "double_3x3_reduce", width, block.double[0])
        _add(self, "double_3x3_1", *block.double)
        _add(self, "double_3x3_2", block.double[1], block.double[1], stride=stride)
        self.pool = _pool(block.pool)
        if block.projected:
            _add(self, "pool_proj", width, block.projected)

    def forward(self, maps: Tensor) -> Tensor:
        branches = [_apply(self, maps, "1x1")] if self.block.pointwise else []
        branches.append(_apply(self, maps, "3x3_reduce", "3x3"))
        branches.append(_apply(self, maps, "double_3x3_reduce", "double_3x3_1", "double_3x3_2"))
        pooled = self.pool(maps)
        branches.append(_apply(self, pooled, "pool_proj") if self.block.projected else pooled)
        if len({branch.shape[2:] for branch in branches}) > 1:
            height, width = maps.shape[2:]
            raise BadSpecification(
                f"With this image size bninception gets a map of {height} x {width}, which its block {self.block.name} "
                "cannot halve: use a multiple of 32, such as 224 or 256, or 227."
            )
        return torch.cat(branches, 1)


class _Entrance(nn.Module):
    """From RGB to the 192 channels that the first block reads."""

    def __init__(self) -> None:
        super().__init__()
        _add(self, "conv1_7x7_s2", 3, 64, stride=2)
        _add(self, "conv2_3x3_reduce", 64, 64)
        _add(self, "conv2_3x3", 64, 192)
        self.pool = _pool("halve")

    def forward(self, images: Tensor) -> Tensor:
        maps = self.pool(_apply(self, images.flip(1), "conv1_7x7_s2"))  # RGB to BGR
        pooled: Tensor = self.pool(_apply(self, maps, "conv2_3x3_reduce", "conv2_3x3"))
        return pooled


def _add(owner: nn.Module, name: str, width: int, out: int, *, stride: int = 1) -> None:
    """Add a convolution of the size in its name, and its batch norm."""
    size = 7 if "7x7" in name else 3 if "3x3" in name and "reduce" not in name else 1
    convolution = nn.Conv2d(width, out, size, stride=stride, padding=size // 2)
    nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")  # so that random weights preserve differences
    nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
    owner.add_module(name, convolution)
    owner.add_module(f"{name}_bn", nn.BatchNorm2d(out, eps=1e-5))


def _apply(owner: nn.Module, maps: Tensor, *names: str) -> Tensor:
    for name in names:
        maps = nn.functional.relu(owner.get_submodule(f"{name}_bn")(owner.get_submodule(name)(maps)), inplace=True)
    return maps


def _pool(kind: str) -> nn.Module:
    """Caffe rounds the size of a pooled map up."""
    if kind == "average":
        return nn.AvgPool2d(3, stride=1, padding=1, ceil_mode=True)
    if kind == "max":
        return nn.MaxPool2d(3, stride=1, padding=1, ceil_mode=True)
    return nn.MaxPool2d(3, stride=2, ceil_mode=True)
