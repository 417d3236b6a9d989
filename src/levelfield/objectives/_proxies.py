"""One vector per class: how they start, and the check that every label has one."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from levelfield.errors import BadInput, BadSpecification
from levelfield.randomness import stream
from levelfield.settings import one_of

ProxyInit = Literal["uniform", "normal", "small_normal", "kaiming_normal", "kaiming_uniform"]


def start_proxies(num_classes: int, dim: int, *, init: ProxyInit, generator: torch.Generator | None) -> nn.Parameter:
    """A parameter (num_classes, dim). Without a generator, from seed 0.

    `uniform`: +-1/sqrt(dim) (Zhai & Wu); `normal`: standard (PML); `small_normal`: normal/8 (ProxyNCA, PNCA++);
    `kaiming_normal`: fan out (Proxy Anchor); `kaiming_uniform`: a = sqrt 5 (SoftTriple). A proxy's length does not
    change the loss, but it divides the effective step: report it together with the learning rate.

    >>> start_proxies(3, 4, init="uniform", generator=None).shape
    torch.Size([3, 4])
    """
    for name, value in (("num_classes", num_classes), ("dim", dim)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadSpecification(f"'{name}' is {value!r}; a whole number above 0 is needed.")
    one_of("proxy_init", init, ("uniform", "normal", "small_normal", "kaiming_normal", "kaiming_uniform"))
    generator = generator or stream(0, "proxies")
    shape = (num_classes, dim)
    if init in ("uniform", "kaiming_uniform"):  # Kaiming's bound with a = sqrt 5 is the same 1/sqrt(fan in)
        drawn = (2 * torch.rand(shape, generator=generator) - 1) / math.sqrt(dim)
    else:
        scale = {"normal": 1.0, "small_normal": 1 / 8, "kaiming_normal": math.sqrt(2 / num_classes)}[init]
        drawn = torch.randn(shape, generator=generator) * scale
    return nn.Parameter(drawn)


def check_classes(labels: Tensor, num_classes: int, objective: str) -> None:
    """Refuse labels that have no proxy. On other devices torch's own check applies: reading would wait for them."""
    if labels.device.type == "cpu" and labels.numel():
        low, high = (int(bound) for bound in torch.aminmax(labels))
        if low < 0 or high >= num_classes:
            wrong = low if low < 0 else high
            raise BadInput(
                f"Objective '{objective}' has {num_classes} classes and got the label {wrong}: labels must be "
                f"0 to {num_classes - 1}."
            )
