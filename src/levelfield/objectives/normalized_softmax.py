"""Normalised softmax: classification by the cosine to one proxy per class."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor

from levelfield.labels import to_device
from levelfield.objectives._contract import LossInputs, ObjectiveFacts, register
from levelfield.objectives._parts.proxies import ProxyObjective, Smoothing, mean_entropy, smoothing_over_all
from levelfield.settings import Positive, Share


@register(
    "normalized_softmax",
    ObjectiveFacts(
        paper="Zhai & Wu 2019",
        equation="roth2020 eq. 19, fehervari2019 eq. 15 (both printed with errors)",
        formula="mean_i CE(cos(x_i, p_c) / temperature, y_i)",
        use="The usual choice for fixed classes: one temperature, no miner; also works if classes have a single image.",
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
    """Cross-entropy of cosines over a temperature, including the true class. Labels are 0..num_classes-1.

    The proxy-softmax of fehervari2019 adds `dropout` of 0.5 between the linear layer and the normalisation (hence here)
    and smoothing of 0.1; its layer norm precedes the linear layer and belongs to the head. Memory: O(batch * classes).

    >>> NormalizedSoftmax(num_classes=2, dim=4)(torch.eye(4), torch.tensor([0, 0, 1, 1])).requires_grad
    True
    """

    temperature: Positive = 0.05
    label_smoothing: Share = 0.0
    smoothing: Smoothing = "others"
    dropout: Annotated[float, Ge(0), Le(0.99)] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.smoothing_over_all = smoothing_over_all(self.label_smoothing, self.smoothing, self.num_classes)

    @property
    def separable(self) -> bool:
        return not self.dropout  # the dropout mask depends on the batch

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        rows = inputs.embeddings
        if self.training and self.dropout:  # no rescaling: rows are normalised later
            drawn = torch.rand(rows.shape, generator=inputs.generator, device=inputs.generator.device)
            rows = rows * to_device(drawn >= self.dropout, rows.device).to(rows.dtype)
        entropy = mean_entropy(self.logits(rows), inputs.labels, inputs.weights, self.smoothing_over_all)
        return {"classification": entropy}

    def logits(self, embeddings: Tensor) -> Tensor:
        return self.cosine(embeddings) / self.temperature
