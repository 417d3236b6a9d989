"""Pieces of timm's vision transformers: up to the first block, a block with rotary positions, the pooled token."""

from __future__ import annotations

import copy
import math

from torch import Tensor, nn

import levelfield._torchvision  # noqa: F401  (before timm)

from timm.models.eva import Eva  # isort: skip
from timm.models.vision_transformer import VisionTransformer  # isort: skip


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
