"""Normalised softmax: classification by the cosine to one proxy per class."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.objectives._class_scores import classified
from levelfield.objectives._contract import Facts, Given, register
from levelfield.objectives._proxies import (
    ProxyInit,
    ProxyObjective,
    Smoothing,
    check_classes,
    mean_entropy,
    smoothing_over_all,
)
from levelfield.settings import number, one_of


@register(
    "normalized_softmax",
    Facts(
        paper="Zhai & Wu 2019",
        equation="roth2020 eq. 19, fehervari2019 eq. 15 (both printed with errors)",
        formula="mean_i CE(cos(x_i, p_c) / temperature, y_i)",
        use="The usual choice for fixed classes: a temperature and nothing to mine; also where classes have a "
        "single image.",
        tuples="none",
        needs=("num_classes", "dim"),
        batch="any",
        least=(1, 1),
        sources={
            "temperature": "Zhai & Wu 2019; fehervari2019; roth2020",
            "label_smoothing": "Zhai & Wu 2019: none (fehervari2019: 0.1)",
            "smoothing": "fehervari2019",
            "dropout": "Zhai & Wu 2019: none (fehervari2019: 0.5)",
            "proxy_init": "Zhai & Wu's code; roth2020",
            "proxy_lr_multiplier": "Zhai & Wu 2019: the network's rate",
        },
        search={
            "temperature": (0.02, 0.3, "log"),
            "label_smoothing": [0.0, 0.1],
            "dropout": [0.0, 0.5],
            "proxy_lr_multiplier": (0.1, 1000, "log"),
        },
        separable=True,
    ),
)
class NormalizedSoftmax(ProxyObjective):
    """Cross-entropy of cosines over a temperature, the true class in the denominator. Labels are 0..num_classes-1.

    The proxy-softmax of fehervari2019 adds `dropout` of 0.5 between the linear layer and the unit length, hence here,
    and smoothing of 0.1; its layer norm stands before the linear layer and belongs to the head. Memory: O(batch *
    classes).

    >>> loss = NormalizedSoftmax(num_classes=2, dim=4)
    >>> loss(torch.eye(4), torch.tensor([0, 0, 1, 1])).requires_grad
    True
    """

    def __init__(
        self,
        *,
        num_classes: int,
        dim: int,
        temperature: float = 0.05,
        label_smoothing: float = 0.0,
        smoothing: Smoothing = "others",
        dropout: float = 0.0,
        proxy_init: ProxyInit = "uniform",
        proxy_lr_multiplier: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(num_classes, dim, init=proxy_init, lr_multiplier=proxy_lr_multiplier, generator=generator)
        self.temperature = number("temperature", temperature, above=0)
        self.dropout = number("dropout", dropout, least=0, most=0.99)
        self.smoothing_over_all = smoothing_over_all(
            number("label_smoothing", label_smoothing, least=0, most=1),
            one_of("smoothing", smoothing, ("others", "all")),
            num_classes,
        )

    @property
    def separable(self) -> bool:
        return not self.dropout  # what is dropped depends on the batch

    def parts(self, given: Given) -> dict[str, Tensor]:
        return {"classification": self._definition(self._dropped(given), self.proxies)}

    def quick(self, given: Given) -> Tensor | None:
        given, proxies = self._dropped(given), self.proxies
        return classified(
            given,
            proxies,
            lambda: self._definition(given, proxies),
            scale=1 / self.temperature,
            smoothing=self.smoothing_over_all,
        )

    def logits(self, embeddings: Tensor) -> Tensor:
        return Geometry(embeddings, self.proxies, normalize=True).similarity / self.temperature

    def _definition(self, given: Given, proxies: Tensor) -> Tensor:
        logits = Geometry(given.embeddings, proxies, normalize=True).similarity / self.temperature
        return mean_entropy(logits, given.labels, given.weights, self.smoothing_over_all)

    def _dropped(self, given: Given) -> Given:
        """The same batch, while training with some of the coordinates at 0 (unit length undoes any scale)."""
        check_classes(given.labels, len(self.proxies), self._label)
        if not (self.training and self.dropout):
            return given
        drawn = torch.rand(given.embeddings.shape, generator=given.generator, device=given.generator.device)
        kept = (drawn >= self.dropout).to(given.embeddings)
        return given._replace(embeddings=given.embeddings * kept)
