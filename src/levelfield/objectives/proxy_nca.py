"""ProxyNCA: each sample closer to its own proxy than to the proxies of the other classes; ProxyNCA++."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.errors import BadSpecification
from levelfield.objectives._contract import LossInputs, ObjectiveFacts, register
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
    ObjectiveFacts(
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
    ObjectiveFacts(
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
