"""The head, from features to raw embedding rows: layer norm, dropout, a linear map, an optional final layer norm."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield.embedder.linear import whitened_components
from levelfield.errors import BadSpecification
from levelfield.settings import checked


class Head(nn.Module):
    """(rows, width) -> (rows, dim). `layer_norm`: "none", "plain" (no parameters), "affine" (scale and shift).

    `output_norm`: a layer norm without parameters after the linear map, for methods whose network ends with one.

    >>> Head(8, 2, layer_norm="plain")(torch.ones(3, 8)).shape
    torch.Size([3, 2])
    >>> bool(Head(8, 4, output_norm=True)(torch.arange(8.0)[None]).mean().abs() < 1e-6)
    True
    """

    @checked
    def __init__(
        self,
        width: int,
        dim: int,
        *,
        layer_norm: Literal["none", "plain", "affine"] = "none",
        dropout: float = 0.0,
        bias: bool = True,
        output_norm: bool = False,
    ) -> None:
        super().__init__()
        if not 0.0 <= dropout < 1.0:
            raise BadSpecification(f"The head's dropout is {dropout}; it must be at least 0 and less than 1.")
        self.width, self.dim, self.layer_norm, self.dropout_rate = width, dim, layer_norm, dropout
        self.output_norm = output_norm
        affine = layer_norm == "affine"
        self.norm = nn.Identity() if layer_norm == "none" else nn.LayerNorm(width, elementwise_affine=affine)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        with torch.random.fork_rng(devices=[]):  # the global generator stays as it is; `start_random` sets the weights
            self.linear = nn.Linear(width, dim, bias=bias)
        start_random(self, torch.Generator().manual_seed(0))

    def forward(self, features: Tensor) -> Tensor:
        if self.layer_norm != "none":
            features = self.norm(features)
        if self.dropout_rate:
            features = self.dropout(features)
        rows: Tensor = self.linear(features)
        return functional.layer_norm(rows, rows.shape[-1:]) if self.output_norm else rows

    @property
    def settings(self) -> dict[str, object]:
        """The keyword arguments that recreate this head."""
        return {
            "width": self.width,
            "dim": self.dim,
            "layer_norm": self.layer_norm,
            "dropout": self.dropout_rate,
            "bias": self.linear.bias is not None,
            "output_norm": self.output_norm,
        }


@torch.no_grad()
def start_random(head: Head, generator: torch.Generator, *, form: str = "random") -> None:
    """Initialise weights at random.

    form: "random": uniformly within 1 / sqrt(width), bias 0. "torch": the bias is drawn, too, as by `nn.Linear`.
    "he_normal": normal with variance 2 / dim (fan out), bias 0.
    """
    if head.linear.weight.is_meta:  # only its shapes matter
        return
    bias = torch.zeros(head.dim)
    if form == "he_normal":
        start_at(head, torch.randn(head.dim, head.width, generator=generator) * math.sqrt(2 / head.dim), bias)
        return
    bound = 1.0 / math.sqrt(head.width)
    weight = torch.rand(head.dim, head.width, generator=generator) * (2 * bound) - bound
    if form == "torch":
        bias = torch.rand(head.dim, generator=generator) * (2 * bound) - bound
    start_at(head, weight, bias)


@torch.no_grad()
def start_at(head: Head, weight: Tensor | np.ndarray, bias: Tensor | np.ndarray) -> None:
    """Start the linear map at `weight` (dim, width) and `bias` (dim,), as returned by `lda` or a stored PCA."""
    if head.linear.bias is None and bias.any():
        raise BadSpecification("This start subtracts the mean of the features, so the head needs a bias.")
    head.linear.weight.copy_(torch.as_tensor(weight))
    if head.linear.bias is not None:
        head.linear.bias.copy_(torch.as_tensor(bias))


@torch.no_grad()
def start_pca(head: Head, features: Tensor, *, whiten: float = 0.5) -> None:
    """Start at the principal components of the features (rows, width), each divided by its spread ** whiten."""
    normed = head.norm(features.to(head.linear.weight)).cpu()
    start_at(head, *whitened_components(normed.numpy(), head.dim, whiten=whiten))
