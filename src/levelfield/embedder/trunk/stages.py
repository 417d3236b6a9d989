"""A timm network as a sequence of pieces: entrance, its own stages, exit. Together they compute `forward_features`."""

from __future__ import annotations

import copy
import math
import re
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

import levelfield._torchvision  # noqa: F401  (before timm)
from levelfield.errors import BadSpecification, unknown

from timm.models.convnext import ConvNeXt  # isort: skip
from timm.models.efficientnet import EfficientNet  # isort: skip
from timm.models.eva import Eva  # isort: skip
from timm.models.mobilenetv3 import MobileNetV3  # isort: skip
from timm.models.resnet import ResNet  # isort: skip
from timm.models.swin_transformer import SwinTransformer  # isort: skip
from timm.models.swin_transformer_v2 import SwinTransformerV2  # isort: skip
from timm.models.vision_transformer import VisionTransformer  # isort: skip

_BY_ATTENTION = (VisionTransformer, Eva, SwinTransformer, SwinTransformerV2)
WHOLE = "network"  # the one stage of a network that we do not know how to divide


@dataclass(frozen=True)
class Division:
    """`entrance` and `exit` are None if the network has nothing before its first or after its last stage.

    token: from the output of the last piece to the one vector of `pooling: token`; None if the network has none.
    patch: the side of an image must be a multiple of it.
    """

    entrance: nn.Module | None
    stages: tuple[tuple[str, nn.Module], ...]
    exit: nn.Module | None
    prefix_tokens: int = 0  # class and register tokens in front of the patches
    channels: str = "NCHW"
    token: nn.Module | None = None
    patch: int = 1

    @property
    def stage_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.stages)

    def pieces(self) -> list[tuple[str, nn.Module]]:
        """All pieces in order, by name."""
        first = [("entrance", self.entrance)] if self.entrance is not None else []
        last = [("final", self.exit)] if self.exit is not None else []
        return [*first, *self.stages, *last]


def divide(network: nn.Module) -> Division:
    """The pieces of `network`; they share its modules.

    A network with a function `division` divides itself. A class is divided like its family only if it computes
    features in the same way; any other network is one stage.

    >>> import timm
    >>> divide(timm.create_model("resnet18")).stage_names
    ('layer1', 'layer2', 'layer3', 'layer4')
    """
    if callable(divide_itself := getattr(network, "division", None)):
        division: Division = divide_itself()
        return division
    computes = getattr(type(network), "forward_features", None)
    if isinstance(network, EfficientNet) and computes is EfficientNet.forward_features:
        entrance = nn.Sequential(network.conv_stem, network.bn1)
        return Division(entrance, _children("blocks", network.blocks), nn.Sequential(network.conv_head, network.bn2))
    if isinstance(network, MobileNetV3) and computes is MobileNetV3.forward_features:
        # its conv_head comes after the pooling and belongs to the classifier
        return Division(nn.Sequential(network.conv_stem, network.bn1), _children("blocks", network.blocks), None)
    if isinstance(network, ResNet) and computes is ResNet.forward_features:
        entrance = nn.Sequential(network.conv1, network.bn1, network.act1, network.maxpool)
        layers = tuple((f"layer{i}", getattr(network, f"layer{i}")) for i in (1, 2, 3, 4))
        return Division(entrance, layers, None)
    if isinstance(network, ConvNeXt) and computes is ConvNeXt.forward_features:
        empty = isinstance(network.norm_pre, nn.Identity)
        return Division(network.stem, _children("stages", network.stages), None if empty else network.norm_pre)
    family: Any = next((kind for kind in _BY_ATTENTION if isinstance(network, kind)), None)
    if family is not None and computes is family.forward_features:
        patch = int(network.patch_embed.patch_size[0])  # type: ignore[union-attr, index]
        if isinstance(network, SwinTransformer | SwinTransformerV2):
            stages = _children("layers", network.layers)
            return Division(network.patch_embed, stages, network.norm, channels="NHWC", patch=patch)
        return _transformer(network, patch)  # type: ignore[arg-type]
    prefix = int(getattr(network, "num_prefix_tokens", 0))
    fmt = str(getattr(network, "output_fmt", "NCHW"))  # some networks keep their channels last
    token = ClassToken() if prefix else None
    return Division(None, ((WHOLE, _Features(network)),), None, prefix_tokens=prefix, channels=fmt, token=token)


def _transformer(network: VisionTransformer | Eva, patch: int) -> Division:
    prefix, blocks = network.num_prefix_tokens, _children("blocks", network.blocks)
    if isinstance(network, Eva):
        mixed = bool(getattr(network, "rope_mixed", False))
        blocks = tuple(
            (name, Rotary(block, network.rope, number, prefix, mixed=mixed))
            for number, (name, block) in enumerate(blocks)
        )
    return Division(Patches(network), blocks, network.norm, prefix, token=token_of(network), patch=patch)


class _Features(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        features = getattr(self.network, "forward_features", self.network)
        maps: Tensor = features(images)
        return maps


class Patches(nn.Module):
    """A vision transformer up to its first block. Keeps only what it needs of the network."""

    kept = ("patch_embed", "pos_drop", "patch_drop", "norm_pre", "rope")

    def __init__(self, network: VisionTransformer | Eva) -> None:
        super().__init__()
        shared: dict[int, nn.Module | nn.Parameter] = {id(parameter): parameter for parameter in network.parameters()}
        for name, part in network.named_children():
            shared[id(part)] = part if name in self.kept else nn.Sequential()  # empty: it changes nothing
        self.network = copy.deepcopy(network, shared)

    def forward(self, images: Tensor) -> Tensor:
        tokens: Tensor = self.network.forward_features(images)
        return tokens


class Rotary(nn.Module):
    """A block of timm's `Eva` with its rotary positions, computed from the number of tokens of a square image.

    `rope` belongs to the entrance of the network, so it is not a submodule: its weights would have two names.
    """

    def __init__(
        self, block: nn.Module, rope: nn.Module | None, number: int, prefix_tokens: int, *, mixed: bool
    ) -> None:
        super().__init__()
        self.block = block
        self._rope = (rope,)  # a tuple is not searched for modules, but copied with them
        self._number = number if mixed else None  # with mixed positions every block has its own
        self._prefix = prefix_tokens

    def forward(self, tokens: Tensor) -> Tensor:
        (rope,) = self._rope
        positions = None
        if rope is not None:
            side = math.isqrt(tokens.shape[1] - self._prefix)
            positions = rope.get_embed(shape=[side, side])  # type: ignore[operator]
            positions = positions if self._number is None else positions[self._number]
        out: Tensor = self.block(tokens, rope=positions)
        return out


class ClassToken(nn.Module):
    """The class token: the first of the tokens."""

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens[:, 0]


class PooledToken(nn.Module):
    """The token that a network pools itself: its class token, or that of its attention pooling (SigLIP), normalised."""

    def __init__(self, network: VisionTransformer | Eva) -> None:
        super().__init__()
        self.attention, self.norm = network.attn_pool, network.fc_norm
        # VisionTransformer may keep the prefix tokens from the attention; Eva never does
        self.skipped = 0 if getattr(network, "pool_include_prefix", True) else network.num_prefix_tokens

    def forward(self, tokens: Tensor) -> Tensor:
        pooled = tokens[:, 0] if self.attention is None else self.attention(tokens[:, self.skipped :])
        normed: Tensor = self.norm(pooled)
        return normed


def token_of(network: VisionTransformer | Eva) -> nn.Module | None:
    """From the tokens after the last block to one vector; None if the network has neither kind of token."""
    if network.attn_pool is not None or (network.cls_token is not None and network.global_pool == "token"):
        return PooledToken(network)
    return ClassToken() if network.cls_token is not None else None


def _children(name: str, stages: nn.Module) -> tuple[tuple[str, nn.Module], ...]:
    return tuple((f"{name}.{i}", stage) for i, stage in stages.named_children())


def check_taps(read: list[str], taps: tuple[str, ...], possible: tuple[str, ...], backbone: str) -> None:
    """Refuse unknown or repeated taps."""
    if not read:
        raise BadSpecification(f"At least one tap is needed. '{backbone}' has: {', '.join(possible)}.")
    for tap in taps:
        if tap not in possible:
            raise unknown(f"tap of '{backbone}'", tap, possible, see=f"levelfield list backbones {backbone}")
    if len(set(read)) < len(read):
        raise BadSpecification(f"The taps {', '.join(taps)} name one stage twice.")


def check_image(image: int | None, patch: int, backbone: str) -> None:
    """Refuse images that a vision transformer cannot divide into patches.

    >>> check_image(160, 14, "vit_small_patch14_dinov2")
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: 'vit_small_patch14_dinov2' reads patches of 14 pixels, so images of 160 pixels \
do not fit: use a multiple, such as 154 or 168.
    """
    if image is not None and image % patch:
        below = image // patch * patch
        near = f"{below} or {below + patch}" if below else str(patch)
        sizes = f"patches of {patch} pixels, so images of {image} pixels do not fit: use a multiple, such as {near}"
        raise BadSpecification(f"'{backbone}' reads {sizes}.")


def first_trained(cut: str, used: list[str], stages: list[str], *, backbone: str) -> int:
    """Number of pieces below the cut."""
    if cut == "frozen":
        return len(used)
    if cut == "tuned":
        return 0
    last = re.fullmatch(r"last-([1-9]\d*)", cut)
    if last is None:
        raise BadSpecification(f"Unknown cut '{cut}'; use frozen, last-N (such as last-2) or tuned.")
    if stages == [WHOLE]:
        raise BadSpecification(
            f"'{backbone}' is not divided into stages, so it cannot be cut at '{cut}': use the cut frozen or tuned."
        )
    if int(last[1]) > len(stages):
        raise BadSpecification(
            f"The cut '{cut}' needs more stages than '{backbone}' uses ({', '.join(stages)}): use at most "
            f"last-{len(stages)}, or tuned."
        )
    return used.index(stages[-int(last[1])])
