"""Networks by name, and where their weights come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from levelfield.registry import Registry

networks: Registry[nn.Module] = Registry("backbone", "backbones", home="levelfield.embedder.networks")
register = networks.register
"""Decorator: enter a function (or class) that is called without arguments and gives the network in its full size.

The network may have `pretrained_cfg` (mean, std, interpolation, input_size and classifier, as timm's networks have),
`reset_classifier(0)`, and `division()`, which gives the `Division` that cuts and taps count in. Without that it is one
stage: it can be frozen or tuned as a whole.
"""


@dataclass(frozen=True)
class Weights:
    """Where weights come from. pretrained: loads them, under the network's own names; None: there are none to load.

    renamed: the tensors of a public weights file under the network's own names.
    """

    pretrained: Callable[[], Mapping[str, Tensor]] | None = None
    renamed: Callable[[Mapping[str, Tensor]], dict[str, Tensor]] = dict
