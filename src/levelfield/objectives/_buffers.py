"""Buffers of a module, and whether training changed them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def buffers_of(module: nn.Module) -> dict[str, Tensor]:
    """Copies of a module's buffers, to detect later changes."""
    return {name: buffer.detach().clone() for name, buffer in module.named_buffers()}


def changed(before: Mapping[str, Tensor], module: nn.Module) -> int:
    """Number of values in changed buffers.

    >>> norm = nn.BatchNorm1d(3)
    >>> before = buffers_of(norm)
    >>> _ = norm(torch.eye(3))
    >>> changed(before, norm)
    7
    """
    now = dict(module.named_buffers())
    return sum(b.numel() for name, b in now.items() if name not in before or not _same(before[name], b))


def _same(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.to(other.device), other)
