"""Which regions of two images make their embeddings similar: the cosine as a sum over the cells of either image.

With average or grid pooling and a linear head an embedding is a sum over cells, so the cosine with another embedding is
one, too. The bias belongs to no cell and is spread evenly. A norm, and the cell that max pooling takes, are treated as
constants: the cells still sum to the cosine, but changing one cell would change the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield.embedder.head.head import Head
from levelfield.embedder.trunk.pooling import pool
from levelfield.reports.page.data import Array

LINEAR = ("average", "grid")  # poolings that are linear in the map


class Linear(NamedTuple):
    """How taps become an embedding: pooling, whether taps are normalised, and the head in float64, if any."""

    pooling: str
    normalize_taps: bool
    head: nn.Module

    @property
    def caveats(self) -> list[str]:
        """Why a sum over cells is an approximation; empty if it is exact."""
        found = [] if self.pooling in LINEAR else [f"pooling '{self.pooling}' takes single cells"]
        if isinstance(self.head, Head):
            found += ["the head's layer norm is treated as a constant"] if self.head.layer_norm != "none" else []
            found += ["the final layer norm is treated as a constant"] if self.head.output_norm else []
        return found


def explain(maps: list[Tensor], how: Linear, toward: Array) -> tuple[Array, Array]:
    """Cells (height, width) whose sum is the cosine of this image's embedding and `toward`, and that embedding.

    maps: of each tap, (channels, height, width). toward: the other image's embedding.
    """
    taps = [one.detach().double().requires_grad_() for one in maps]
    linear, whole = _embedded(taps, how)
    aim = torch.from_numpy(np.asarray(toward, dtype=np.float64))
    aim = aim / (aim.norm() * whole.norm()).clamp_min(1e-12)
    gradients = torch.autograd.grad((linear @ aim).sum(), taps)
    height, width = max(one.shape[1] for one in taps), max(one.shape[2] for one in taps)
    parts = [(tap * slope).sum(0).detach().numpy() for tap, slope in zip(taps, gradients, strict=True)]
    cells: Array = np.sum([enlarged(part, height, width) for part in parts], axis=0)
    rest = float(whole @ aim) - cells.sum()
    row: Array = whole.detach().numpy()
    return cells + rest / cells.size, row


def _embedded(taps: list[Tensor], how: Linear) -> tuple[Tensor, Tensor]:
    """The part of the embedding that is linear in the maps once norms are constants, and the whole embedding."""
    pooled = [pool(tap[None], how.pooling)[0] for tap in taps]
    if how.normalize_taps:
        pooled = [one / one.detach().norm().clamp_min(1e-12) for one in pooled]
    features = torch.cat(pooled)
    if not isinstance(how.head, Head):
        return features, features.detach()
    head = how.head
    with torch.no_grad():
        whole = head(features[None])[0]
    if isinstance(head.norm, nn.LayerNorm):
        scale = features.detach().var(correction=0).add(head.norm.eps).rsqrt()
        features = features * (scale * head.norm.weight.detach() if head.norm.elementwise_affine else scale)
    rows = functional.linear(features, head.linear.weight.detach())
    if head.output_norm:
        with torch.no_grad():
            before = head.linear(head.norm(torch.cat(pooled)[None]))[0]
        rows = (rows - rows.mean()) * before.var(correction=0).add(1e-5).rsqrt()
    return rows, whole


def enlarged(cells: Array, height: int, width: int) -> Array:
    """Cells on a finer grid with the same sum: each is divided by area.

    >>> enlarged(np.array([[4.0, 8.0]]), 2, 4)
    array([[1., 1., 2., 2.],
           [1., 1., 2., 2.]])
    """
    return _shares(cells.shape[0], height) @ cells @ _shares(cells.shape[1], width).T


def _shares(coarse: int, fine: int) -> Array:
    """(fine, coarse): the share of each coarse cell in each fine one."""
    low, high = np.arange(fine) / fine, (np.arange(fine) + 1) / fine
    left, right = np.arange(coarse) / coarse, (np.arange(coarse) + 1) / coarse
    shared: Array = np.minimum(high[:, None], right) - np.maximum(low[:, None], left)
    return shared.clip(0) * coarse
