"""CosFace: classification by cosines, with a margin subtracted from the true class's cosine."""

from __future__ import annotations

from torch import Tensor

from levelfield.objectives._contract import LossInputs, ObjectiveFacts, register
from levelfield.objectives._parts.proxies import ProxyInit, ProxyObjective, mean_entropy
from levelfield.settings import NotNegative, Positive


def cosface_logits(cosine: Tensor, labels: Tensor, *, scale: float, margin: float) -> Tensor:
    """scale * (s_ic - margin [c = y_i]); cosine: (b, C).

    >>> import torch
    >>> cosface_logits(torch.tensor([[1.0, 0.5]]), torch.tensor([0]), scale=4.0, margin=0.25)
    tensor([[3., 2.]])
    """
    target = cosine.gather(1, labels[:, None]) - margin
    return scale * cosine.scatter(1, labels[:, None], target)


@register(
    "cosface",
    ObjectiveFacts(
        paper="Wang et al. 2018 (CosFace)",
        equation="Wang et al. 2018 eq. 4",
        formula="mean_i CE(scale (cos(x_i, p_c) - margin [c = y_i]), y_i)",
        use="Like arcface, with a margin on the cosine: simpler to tune and smooth at any angle.",
        sources={
            "scale": "PML; zheng2021's code",
            "margin": "PML; zheng2021's code",
            "proxy_init": "PML: standard normal",
            "proxy_lr_multiplier": "no paper sets one (MLRC: searched); as in Kim et al. 2020",
        },
        published_lr=1e-4,
        search={"scale": (8, 256, "log"), "margin": (0.0, 0.7, "linear"), "proxy_lr_multiplier": (0.1, 1000, "log")},
        separable=True,
    ),
)
class CosFace(ProxyObjective):
    """Normalised softmax with an additive margin on the cosine. Labels are 0..num_classes-1.

    Memory: O(batch * classes).

    >>> import torch
    >>> CosFace(num_classes=2, dim=4)(torch.eye(4), torch.tensor([0, 0, 1, 1])).requires_grad
    True
    """

    scale: Positive = 64.0
    margin: float = 0.35
    proxy_init: ProxyInit = "normal"
    proxy_lr_multiplier: NotNegative = 100.0

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        logits = cosface_logits(self.cosine(inputs.embeddings), inputs.labels, scale=self.scale, margin=self.margin)
        return {"classification": mean_entropy(logits, inputs.labels, inputs.weights)}

    def logits(self, embeddings: Tensor) -> Tensor:
        return self.scale * self.cosine(embeddings)

    def target_logit(self, cosine: Tensor) -> Tensor:
        """Logit of the true class from its cosine."""
        return self.scale * (cosine - self.margin)
