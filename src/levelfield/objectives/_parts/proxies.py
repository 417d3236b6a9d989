"""Proxies, one vector per class: initialisation, and the cross-entropy over them.

Without postponed annotations: subclasses inherit the types of settings, whatever their module imports.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield.errors import BadSpecification
from levelfield.geometry import Geometry
from levelfield.objectives._contract import Objective
from levelfield.randomness import stream
from levelfield.settings import Count, NotNegative, Share

ProxyInit = Literal["uniform", "normal", "small_normal", "tiny_normal", "kaiming_normal", "kaiming_uniform"]
Smoothing = Literal["others", "all"]


def start_proxies(num_classes: int, dim: int, *, init: ProxyInit, generator: torch.Generator | None) -> nn.Parameter:
    """A parameter (num_classes, dim). Without a generator, from seed 0.

    `uniform`: +-1/sqrt(dim) (Zhai & Wu); `normal`: standard (PML); `small_normal`: normal/8 (ProxyNCA, PNCA++);
    `tiny_normal`: normal/800 (fehervari2019); `kaiming_normal`: fan out (Proxy Anchor); `kaiming_uniform`:
    +-1/sqrt(num_classes) (SoftTriple: a = sqrt 5, its centres are columns). A proxy's length does not change the loss
    but divides the effective step size: report it together with the learning rate.

    >>> start_proxies(3, 4, init="uniform", generator=None).shape
    torch.Size([3, 4])
    """
    generator = generator or stream(0, "proxies")
    shape = (num_classes, dim)
    if init in ("uniform", "kaiming_uniform"):  # Kaiming's bound with a = sqrt 5 is 1/sqrt(fan in)
        drawn = (2 * torch.rand(shape, generator=generator) - 1) / math.sqrt(dim if init == "uniform" else num_classes)
    else:
        kaiming = math.sqrt(2 / num_classes)
        scale = {"normal": 1.0, "small_normal": 1 / 8, "tiny_normal": 1 / 800, "kaiming_normal": kaiming}[init]
        drawn = torch.randn(shape, generator=generator) * scale
    return nn.Parameter(drawn)


class ClassObjective(Objective):
    """An objective with parameters for each of the classes 0 to num_classes - 1, which `generator` initialises."""

    num_classes: Count
    dim: Count
    generator: torch.Generator | None = None


class ProxyObjective(ClassObjective):
    """An objective with one vector per class, `proxies` (num_classes, dim), with their own learning rate."""

    proxy_init: ProxyInit = "uniform"
    proxy_lr_multiplier: NotNegative = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.proxies = start_proxies(self.num_classes, self.dim, init=self.proxy_init, generator=self.generator)

    def cosine(self, embeddings: Tensor) -> Tensor:
        """Cosines (b, num_classes) of raw rows and proxies."""
        return Geometry(embeddings, self.proxies, normalize=True).similarity

    def lr_multipliers(self) -> dict[str, float]:
        return {"proxies": self.proxy_lr_multiplier}

    @property
    def class_vectors(self) -> nn.Parameter:
        return self.proxies


def smoothing_over_all(label_smoothing: Share, smoothing: Smoothing, num_classes: int) -> float:
    """The share spread over all classes that equals `label_smoothing` in the given convention.

    `all`: 1-eps on the true class plus eps/C on each (torch, seidenschwarz2021); `others`: 1-eps and eps/(C-1) on the
    others (fehervari2019).

    >>> smoothing_over_all(0.1, "others", 5)
    0.125
    """
    if num_classes == 1:
        return 0.0
    share = label_smoothing * num_classes / (num_classes - 1) if smoothing == "others" else label_smoothing
    if share > 1:
        raise BadSpecification(
            f"'label_smoothing' is {label_smoothing}; with {num_classes} classes it must be below "
            f"{1 - 1 / num_classes:g}, so that the true class gets the largest share."
        )
    return share


def mean_entropy(logits: Tensor, labels: Tensor, weights: Tensor | None, smoothing: float = 0.0) -> Tensor:
    """Mean cross-entropy of the logits (b, C); `smoothing` is the share spread over all classes. 0 without samples.

    >>> mean_entropy(torch.zeros(3, 4), torch.tensor([0, 1, 2]), None)
    tensor(1.3863)
    """
    terms = functional.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="none")
    return (terms if weights is None else terms * weights).sum() / max(1, len(terms))
