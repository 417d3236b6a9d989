"""Proxy triplet: a sample, its own proxy, and the proxy of every other class."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.objectives._contract import LossInputs, ObjectiveFacts, register
from levelfield.objectives._parts.proxies import ProxyInit, ProxyObjective
from levelfield.settings import Positive


def proxy_triplet_hinges(distance: Tensor, labels: Tensor, *, scale: float, margin: float) -> Tensor:
    """[scale D_iy - scale D_ic + margin]+ for every class c, 0 for the true one; distance: (b, C).

    >>> import torch
    >>> proxy_triplet_hinges(torch.tensor([[1.0, 1.5, 3.0]]), torch.tensor([0]), scale=1.0, margin=1.0)
    tensor([[0.0000, 0.5000, 0.0000]])
    """
    target = labels[:, None]
    return (scale * (distance.gather(1, target) - distance) + margin).relu().scatter(1, target, 0.0)


@register(
    "proxy_triplet",
    ObjectiveFacts(
        paper="Fehérvári et al. 2019 (fehervari2019)",
        equation="fehervari2019 section 2.9",
        formula="mean_i sum_{c != y} [scale D_iy - scale D_ic + margin]+, D = |u(x) - u(p)|^2",
        use="A hinge against proxies instead of a softmax; images that are already correct get no gradient.",
        sources={
            "margin": "fehervari2019's code",
            "scale": "fehervari2019's code: its multiplier 3 is for NCA only",
            "squared": "fehervari2019 section 2.9",
            "reduction": "fehervari2019's code",
            "proxy_init": "fehervari2019's code: normal(0, 0.01)/8",
            "proxy_lr_multiplier": "fehervari2019's code: the backbone's rate",
        },
        search={
            "margin": (0.1, 2.0, "log"),
            "scale": (1, 16, "log"),
            "reduction": ["sum", "mean", "active"],
            "proxy_lr_multiplier": (0.1, 1000, "log"),
        },
        separable=True,
    ),
)
class ProxyTriplet(ProxyObjective):
    """Triplet hinges between every sample and all proxies. Labels are 0..num_classes-1.

    `sum`: over the classes, mean over the batch; `mean`: over all pairs of sample and other class; `active`: over those
    above 0. Without `squared`, D is the distance itself. Memory: O(batch * classes).

    >>> import torch
    >>> ProxyTriplet(num_classes=2, dim=4)(torch.eye(4), torch.tensor([0, 0, 1, 1])).requires_grad
    True
    """

    margin: float = 1.0
    scale: Positive = 1.0
    squared: bool = True
    reduction: Literal["sum", "mean", "active"] = "sum"
    proxy_init: ProxyInit = "tiny_normal"

    @property
    def separable(self) -> bool:
        return self.reduction != "active"

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        geometry = Geometry(inputs.embeddings, self.proxies, normalize=True)
        distance = 2 - 2 * geometry.similarity if self.squared else geometry.distance
        hinges = proxy_triplet_hinges(distance, inputs.labels, scale=self.scale, margin=self.margin)
        self.active = (hinges.detach() > 0).sum()
        divisor: Tensor | int = self.active.clamp_min(1)
        if self.reduction != "active":
            divisor = max(1, len(inputs.labels) * (1 if self.reduction == "sum" else len(self.proxies) - 1))
        return {"triplet": inputs.weighted(hinges).sum() / divisor}
