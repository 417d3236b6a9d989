"""Each sample closer to its own proxy than to those of the other classes: ProxyNCA, ProxyNCA++ and proxy triplet."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.errors import BadSpecification
from levelfield.geometry import Geometry
from levelfield.objectives._contract import Facts, LossInputs, register
from levelfield.objectives._parts.proxies import ProxyInit, ProxyObjective, Smoothing, mean_entropy, smoothing_over_all
from levelfield.settings import NotNegative, Positive, Share


def proxy_nca_terms(squared_distance: Tensor, labels: Tensor, *, scale: float) -> Tensor:
    """scale D_iy + log sum_{c != y} exp(-scale D_ic) of each sample; squared_distance: (b, C).

    The true class is not in the sum (fehervari2019 eq. 14, roth2020 eq. 13), so terms may be negative.

    >>> proxy_nca_terms(torch.tensor([[1.0, 3.0]]), torch.tensor([0]), scale=2.0)
    tensor([-4.])
    """
    target = labels[:, None]
    others = (-scale * squared_distance).scatter(1, target, -torch.inf).logsumexp(1)
    return scale * squared_distance.gather(1, target)[:, 0] + others


@register(
    "proxy_nca",
    Facts(
        paper="Movshovitz-Attias et al. 2017",
        equation="fehervari2019 eq. 14, roth2020 eq. 13 (d is the squared distance)",
        formula="mean_i scale D_iy + log sum_{c != y} e^(-scale D_ic), D = |u(x) - u(p)|^2",
        use="Fixed classes and small or random batches; images are compared with proxies only, never with each other.",
        sources={
            "scale": "fehervari2019's and roth2020's code: both sides times 3",
            "include_true": "Movshovitz-Attias et al. 2017; fehervari2019; roth2020 (PML and others include it)",
            "label_smoothing": "fehervari2019, roth2020: none (a common port: 0.1)",
            "smoothing": "the port's code",
            "proxy_init": "roth2020's code: normal/8",
            "proxy_lr_multiplier": "roth2020's code: 5e-4 against 1e-5",
        },
        published_lr=1e-5,
        search={"scale": (1, 64, "log"), "proxy_lr_multiplier": (0.1, 1000, "log")},
        separable=True,
    ),
)
class ProxyNCA(ProxyObjective):
    """ProxyNCA. Labels are 0..num_classes-1. `label_smoothing` is for the form with the true class included.

    Memory: O(batch * classes).

    >>> ProxyNCA(num_classes=2, dim=4)(torch.eye(4), torch.tensor([0, 0, 1, 1])).requires_grad
    True
    """

    scale: Positive = 9.0
    include_true: bool = False
    label_smoothing: Share = 0.0
    smoothing: Smoothing = "others"
    proxy_init: ProxyInit = "small_normal"
    proxy_lr_multiplier: NotNegative = 50.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.smoothing_over_all = smoothing_over_all(self.label_smoothing, self.smoothing, self.num_classes)
        if not self.include_true and self.num_classes < 2:
            raise BadSpecification(
                "'proxy_nca' compares with other classes and needs 'num_classes' of at least 2, not 1."
            )
        if not self.include_true and self.smoothing_over_all:
            raise BadSpecification(
                "'label_smoothing' needs 'include_true': without the true class the targets do not sum to 1."
            )

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        distance = 2 - 2 * self.cosine(inputs.embeddings)
        if self.include_true:
            logits = -self.scale * distance
            return {"classification": mean_entropy(logits, inputs.labels, inputs.weights, self.smoothing_over_all)}
        terms = proxy_nca_terms(distance, inputs.labels, scale=self.scale)
        return {"classification": inputs.weighted(terms).sum() / max(1, len(terms))}


@register(
    "proxy_nca_pp",
    Facts(
        paper="Teh et al. 2020",
        equation="Teh et al. 2020 eq. 8",
        formula="mean_i CE(-|u(x_i) - u(p_c)|^2 / temperature, y_i)",
        use="Like proxy_nca with a true probability and a low temperature; needs fast-learning proxies and a "
        "normalised head.",
        batch="4 per class",
        sources={
            "temperature": "Teh et al. 2020: 1/9",
            "proxy_init": "Teh et al.'s code: normal/8",
            "proxy_lr_multiplier": "as in Kim et al. 2020; Teh et al. use 1e5, but with Adam's eps at 1",
        },
        published_lr=1e-4,
        search={"temperature": (0.03, 0.5, "log"), "proxy_lr_multiplier": (0.1, 1000, "log")},
        separable=True,
    ),
)
class ProxyNCAPlusPlus(ProxyObjective):
    """Cross-entropy over squared distances to proxies, the true class included. Labels are 0..num_classes-1.

    The other parts of "++" are not in the loss: max pooling, plain layer norm in the head, balanced batches, fast
    proxies and a warm-up. Memory: O(batch * classes).

    >>> ProxyNCAPlusPlus(num_classes=2, dim=4)(torch.eye(4), torch.tensor([0, 0, 1, 1])).requires_grad
    True
    """

    temperature: Positive = 1 / 9
    proxy_init: ProxyInit = "small_normal"
    proxy_lr_multiplier: NotNegative = 100.0

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        logits = (2 * self.cosine(inputs.embeddings) - 2) / self.temperature  # -D / temperature
        return {"classification": mean_entropy(logits, inputs.labels, inputs.weights)}


def proxy_triplet_hinges(distance: Tensor, labels: Tensor, *, scale: float, margin: float) -> Tensor:
    """[scale D_iy - scale D_ic + margin]+ for every class c, 0 for the true one; distance: (b, C).

    >>> proxy_triplet_hinges(torch.tensor([[1.0, 1.5, 3.0]]), torch.tensor([0]), scale=1.0, margin=1.0)
    tensor([[0.0000, 0.5000, 0.0000]])
    """
    target = labels[:, None]
    return (scale * (distance.gather(1, target) - distance) + margin).relu().scatter(1, target, 0.0)


@register(
    "proxy_triplet",
    Facts(
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

    >>> ProxyTriplet(num_classes=2, dim=4)(torch.eye(4), torch.tensor([0, 0, 1, 1])).requires_grad
    True
    """

    margin: float = 1.0
    scale: Positive = 1.0
    squared: bool = True
    reduction: Literal["sum", "mean", "active"] = "sum"
    proxy_init: ProxyInit = "tiny_normal"
    proxy_lr_multiplier: NotNegative = 1.0

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
