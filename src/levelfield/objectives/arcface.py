"""ArcFace: classification by cosines, with a margin added to the true class's angle."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Le
from torch import Tensor

from levelfield.objectives._contract import LossInputs, ObjectiveFacts, register
from levelfield.objectives._parts.proxies import ProxyInit, ProxyObjective, mean_entropy
from levelfield.settings import NotNegative, Positive

BeyondPi = Literal["linear", "plain"]


def cosine_with_margin(cosine: Tensor, *, margin: float, beyond_pi: BeyondPi) -> Tensor:
    """cos(arccos(s) + margin), margin in radians.

    Beyond pi the cosine would rise again: `linear` continues with s - margin sin(margin) (the original face recognition
    code), `plain` lets it rise (roth2020 eq. 6 as printed). Exactly at 0 and pi, where arccos has no derivative, the
    sine is treated as constant.

    >>> cosine_with_margin(torch.tensor([1.0, 0.0, -1.0]), margin=math.pi / 6, beyond_pi="linear")
    tensor([ 0.8660, -0.5000, -1.2618])
    """
    squared = (1 - cosine) * (1 + cosine)
    flat = squared.detach() <= 4 * torch.finfo(squared.dtype).eps
    sine = squared.masked_fill(flat, 1).sqrt().masked_fill(flat, 0)
    moved = cosine * math.cos(margin) - sine * math.sin(margin)
    if beyond_pi == "plain":
        return moved
    return torch.where(cosine >= -math.cos(margin), moved, cosine - margin * math.sin(margin))


@register(
    "arcface",
    ObjectiveFacts(
        paper="Deng et al. 2019 in the form of Roth et al. 2020 (roth2020)",
        equation="roth2020 eq. 6 (printed with errors)",
        formula="mean_i CE(scale cos(angle(x_i, p_c) + margin [c = y_i]), y_i)",
        use="Many samples of each of many fixed classes, e.g. faces; the angular margin also acts when "
        "the batch is easy.",
        sources={
            "scale": "roth2020 A.1",
            "margin": "roth2020 A.1: 0.5 radians",
            "beyond_pi": "Deng et al.'s code; PML",
            "proxy_init": "roth2020's code",
            "proxy_lr_multiplier": "roth2020 A.1: 5e-4 against 1e-5",
        },
        published_lr=1e-5,
        search={"scale": (8, 256, "log"), "margin": (0.0, 0.8, "linear"), "proxy_lr_multiplier": (0.1, 1000, "log")},
        separable=True,
    ),
)
class ArcFace(ProxyObjective):
    """Normalised softmax with an additive margin (radians) on the true angle. Labels are 0..num_classes-1.

    roth2020's code treats every negative cosine as 0 and had no margin for a long time; this is the intended equation.
    Memory: O(batch * classes).

    >>> ArcFace(num_classes=2, dim=4)(torch.eye(4), torch.tensor([0, 0, 1, 1])).requires_grad
    True
    """

    scale: Positive = 16.0
    margin: Annotated[float, Ge(0), Le(math.pi)] = 0.5
    beyond_pi: BeyondPi = "linear"
    proxy_init: ProxyInit = "uniform"
    proxy_lr_multiplier: NotNegative = 50.0

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        cosine = self.cosine(inputs.embeddings)
        target = inputs.labels[:, None]
        logits = (self.scale * cosine).scatter(1, target, self.target_logit(cosine.gather(1, target)))
        return {"classification": mean_entropy(logits, inputs.labels, inputs.weights)}

    def logits(self, embeddings: Tensor) -> Tensor:
        return self.scale * self.cosine(embeddings)

    def target_logit(self, cosine: Tensor) -> Tensor:
        """Logit of the true class from its cosine."""
        return self.scale * cosine_with_margin(cosine, margin=self.margin, beyond_pi=self.beyond_pi)
