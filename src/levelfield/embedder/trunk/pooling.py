"""From the map of a tap to one vector per image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from levelfield.errors import BadSpecification, unknown

if TYPE_CHECKING:  # the page pools maps without timm
    from levelfield.embedder.trunk.stages import Division

POOLINGS = ("average", "max", "average+max", "grid", "token", "own")


def pool(maps: Tensor, how: str) -> Tensor:
    """maps: (rows, channels, height, width) -> (rows, width). `average+max` is their sum; `grid` keeps the layout.

    >>> import torch
    >>> maps = torch.tensor([[[[0.0, 2.0]], [[4.0, 4.0]]]])
    >>> pool(maps, "average"), pool(maps, "average+max"), pool(maps, "grid")
    (tensor([[1., 4.]]), tensor([[3., 8.]]), tensor([[0., 2., 4., 4.]]))
    """
    if how == "average":
        return maps.mean(dim=(2, 3))
    if how == "max":
        return maps.amax(dim=(2, 3))
    if how == "average+max":
        return maps.mean(dim=(2, 3)) + maps.amax(dim=(2, 3))
    if how == "grid":
        return maps.flatten(1)
    raise unknown("pooling", how, POOLINGS)


def as_maps(output: Tensor, *, prefix_tokens: int = 0, channels: str = "NCHW") -> Tensor:
    """The output of a stage as (rows, channels, height, width).

    Tokens become a column of positions; class and register tokens have no position and are dropped.
    """
    if output.ndim == 3:
        return output[:, prefix_tokens:].transpose(1, 2).unsqueeze(-1)
    if output.ndim == 2:
        return output[:, :, None, None]
    return output.permute(0, 3, 1, 2) if channels == "NHWC" else output


def squares(output: Tensor, *, prefix_tokens: int = 0, channels: str = "NCHW") -> Tensor:
    """Like `as_maps`, but the tokens of patches become a square, row by row."""
    maps = as_maps(output, prefix_tokens=prefix_tokens, channels=channels)
    side = math.isqrt(maps.shape[2])
    return maps.reshape(*maps.shape[:2], side, side) if output.ndim == 3 else maps


def resolved(how: str, division: Division, read: Sequence[str], backbone: str) -> str:
    """The pooling of a trunk that reads these pieces: `own` is `token` if the network has one, otherwise `average`."""
    if how not in POOLINGS:
        raise unknown("pooling", how, POOLINGS)
    last = division.pieces()[-1][0]
    # a network that makes its token by attention pooling has none before its last piece
    tokenless = [name for name in read if name != last] if not division.prefix_tokens else []
    if how == "own":
        return "average" if division.token is None or tokenless else "token"
    if how == "token" and division.token is None:
        raise BadSpecification(
            f"'{backbone}' has no token to read: `pooling: token` needs a vision transformer with a class token or "
            "attention pooling. Use average, or own (the token of networks that have one, the average of others)."
        )
    if how == "token" and tokenless:
        raise BadSpecification(
            f"'{backbone}' makes its token after the last block, so `pooling: token` cannot read the tap "
            f"{tokenless[0]}: use taps: [final], or pooling: average."
        )
    return how
