"""Normalised softmax: classification by the cosine to one proxy per class."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from levelfield.errors import BadSpecification
from levelfield.geometry import Geometry
from levelfield.objectives._contract import Facts, Given, Objective, register
from levelfield.objectives._proxies import ProxyInit, check_classes, start_proxies
from levelfield.settings import number, one_of

Smoothing = Literal["others", "all"]


def smoothing_over_all(label_smoothing: float, smoothing: Smoothing, num_classes: int) -> float:
    """The share spread over all classes that equals `label_smoothing` in the given convention.

    `all`: 1-eps on the true class plus eps/C on each (torch, 004); `others`: 1-eps and eps/(C-1) on the others (001).

    >>> smoothing_over_all(0.1, "others", 5)
    0.125
    """
    if num_classes == 1:
        return 0.0
    share = label_smoothing * num_classes / (num_classes - 1) if smoothing == "others" else label_smoothing
    if share > 1:
        raise BadSpecification(
            f"'label_smoothing' is {label_smoothing}; with {num_classes} classes the true class would get less than "
            f"the others from {1 - 1 / num_classes:g} on."
        )
    return share


@register(
    "normalized_softmax",
    Facts(
        paper="Zhai & Wu 2019",
        equation="002 eq. 19, 001 eq. 15 (both printed with errors)",
        formula="mean_i CE(cos(x_i, p_c) / temperature, y_i)",
        tuples="none",
        needs=("num_classes", "dim"),
        batch="any",
        sources={
            "temperature": "Zhai & Wu 2019; 001; 002",
            "label_smoothing": "Zhai & Wu 2019: none (001: 0.1)",
            "smoothing": "001",
            "proxy_init": "Zhai & Wu's code; 002",
            "proxy_lr_multiplier": "Zhai & Wu 2019: the network's rate",
        },
        search={
            "temperature": (0.02, 0.3, "log"),
            "label_smoothing": [0.0, 0.1],
            "proxy_lr_multiplier": (0.1, 1000, "log"),
        },
        separable=True,
    ),
)
class NormalizedSoftmax(Objective):
    """Cross-entropy of cosines over a temperature, the true class in the denominator. Labels are 0..num_classes-1.

    Memory: O(batch * num_classes).

    >>> loss = NormalizedSoftmax(num_classes=2, dim=4)
    >>> loss(torch.eye(4), torch.tensor([0, 0, 1, 1])).requires_grad
    True
    """

    proxies: Tensor

    def __init__(
        self,
        *,
        num_classes: int,
        dim: int,
        temperature: float = 0.05,
        label_smoothing: float = 0.0,
        smoothing: Smoothing = "others",
        proxy_init: ProxyInit = "uniform",
        proxy_lr_multiplier: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.temperature = number("temperature", temperature, above=0)
        self.proxy_lr_multiplier = number("proxy_lr_multiplier", proxy_lr_multiplier, least=0)
        self.proxies = start_proxies(num_classes, dim, init=proxy_init, generator=generator)
        self.smoothing_over_all = smoothing_over_all(
            number("label_smoothing", label_smoothing, least=0, most=1),
            one_of("smoothing", smoothing, ("others", "all")),
            num_classes,
        )

    def lr_multipliers(self) -> dict[str, float]:
        return {"proxies": self.proxy_lr_multiplier}

    def parts(self, given: Given) -> dict[str, Tensor]:
        check_classes(given.labels, len(self.proxies), self._label)
        logits = Geometry(given.embeddings, self.proxies, normalize=True).similarity / self.temperature
        terms = functional.cross_entropy(
            logits, given.labels, label_smoothing=self.smoothing_over_all, reduction="none"
        )
        if given.weights is not None:
            terms = terms * given.weights
        return {"classification": terms.sum() / max(1, len(terms))}
