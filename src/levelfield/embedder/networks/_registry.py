"""Registry of networks and their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from levelfield.registry import Registry

networks: Registry[nn.Module] = Registry("backbone", "backbones", home="levelfield.embedder.networks")
register = networks.register
"""Decorator: register a function (or class) that takes no arguments and returns the full network.

The network may have `pretrained_cfg` (mean, std, interpolation, input_size and classifier, as timm's networks have),
`reset_classifier(0)`, and `division()`, which returns the `Division` into stages for cuts and taps. Without it the
network is one stage, which can only be frozen or tuned as a whole.
"""


@dataclass(frozen=True)
class Weights:
    """Source of weights. pretrained: loads them under the network's own names; None: no pretrained weights.

    file: the name of the public weights file. renamed: its tensors under the network's own names.
    """

    pretrained: Callable[[], Mapping[str, Tensor]] | None = None
    file: str = ""
    renamed: Callable[[Mapping[str, Tensor]], dict[str, Tensor]] = dict
