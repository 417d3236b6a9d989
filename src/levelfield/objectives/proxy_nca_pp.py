"""ProxyNCA++: ProxyNCA as a probability, with a low temperature."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.objectives._contract import Facts, LossInputs, register
from levelfield.objectives._parts.proxies import ProxyInit, ProxyObjective, mean_entropy
from levelfield.settings import Count, NotNegative, Positive


def proxy_nca_pp_logits(cosine: Tensor, *, temperature: float) -> Tensor:
    """-D / temperature with D = |u(x) - u(p)|^2; cosine: (b, C).

    >>> proxy_nca_pp_logits(torch.tensor([[1.0, 0.0]]), temperature=0.5)
    tensor([[ 0., -4.]])
    """
    return (2 * cosine - 2) / temperature


@register(
    "proxy_nca_pp",
    Facts(
        paper="Teh et al. 2020",
        equation="Teh et al. 2020 eq. 8",
        formula="mean_i CE(-|u(x_i) - u(p_c)|^2 / temperature, y_i)",
        use="Like proxy_nca with a true probability and a low temperature; needs fast-learning proxies and a "
        "normalised head.",
        batch="4 per class",
        least=(1, 1),
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

    >>> loss = ProxyNCAPlusPlus(num_classes=2, dim=4)
    >>> loss(torch.eye(4), torch.tensor([0, 0, 1, 1])).requires_grad
    True
    """

    def __init__(
        self,
        *,
        num_classes: Count,
        dim: Count,
        temperature: Positive = 1 / 9,
        proxy_init: ProxyInit = "small_normal",
        proxy_lr_multiplier: NotNegative = 100.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(num_classes, dim, proxy_init, proxy_lr_multiplier, generator)
        self.temperature = temperature

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        logits = proxy_nca_pp_logits(self.cosine(inputs.embeddings), temperature=self.temperature)
        return {"classification": mean_entropy(logits, inputs.labels, inputs.weights)}
