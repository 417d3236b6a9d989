"""Softmax: a linear classifier on the raw embedding."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from levelfield.geometry import Geometry
from levelfield.objectives._contract import LossInputs, ObjectiveFacts, register
from levelfield.objectives._parts.proxies import (
    ClassObjective,
    ProxyInit,
    Smoothing,
    mean_entropy,
    smoothing_over_all,
    start_proxies,
)
from levelfield.objectives._parts.start import StartRows, linear_classifier
from levelfield.settings import NotNegative, Positive, Share


def softmax_logits(product: Tensor, bias: Tensor | None, *, temperature: float) -> Tensor:
    """(w_c . x_i + bias_c) / temperature; product: (b, C), bias: (C,).

    >>> softmax_logits(torch.tensor([[1.0, 2.0]]), torch.tensor([0.0, 1.0]), temperature=0.5)
    tensor([[2., 6.]])
    """
    return (product if bias is None else product + bias) / temperature


@register(
    "softmax",
    ObjectiveFacts(
        paper="cross-entropy; Seidenschwarz et al. 2021 (seidenschwarz2021) with smoothing and temperature",
        equation="seidenschwarz2021 section 3 (auxiliary loss)",
        formula="mean_i CE((w_c . x_i + bias_c) / temperature, y_i)",
        use="A plain classifier as baseline or as a second loss; embeddings are used raw, so their norm carries "
        "confidence.",
        sources={
            "temperature": "none (seidenschwarz2021: 0.2 CUB, 1/9 Cars, 0.6047 SOP, 0.1859 In-Shop)",
            "label_smoothing": "none (seidenschwarz2021's code: 0.1)",
            "smoothing": "seidenschwarz2021's code",
            "use_bias": "zheng2021 table 3; torch's linear layer",
            "proxy_init": "torch's linear layer",
            "proxy_lr_multiplier": "seidenschwarz2021: the network's rate",
        },
        search={
            "temperature": (0.1, 1.0, "log"),
            "label_smoothing": [0.0, 0.1],
            "proxy_lr_multiplier": (0.1, 1000, "log"),
        },
        separable=True,
    ),
)
class Softmax(ClassObjective):
    """Cross-entropy of a linear classifier; nothing is normalised. Labels are 0..num_classes-1.

    roth2020's rows called "Softmax" are `normalized_softmax`. Memory: O(batch * classes).

    >>> Softmax(num_classes=2, dim=4)(torch.eye(4), torch.tensor([0, 0, 1, 1])).requires_grad
    True
    """

    normalize = False  # rows are used as given
    temperature: Positive = 1.0
    label_smoothing: Share = 0.0
    smoothing: Smoothing = "all"
    use_bias: bool = True
    proxy_init: ProxyInit = "uniform"
    proxy_lr_multiplier: NotNegative = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.weight = start_proxies(self.num_classes, self.dim, init=self.proxy_init, generator=self.generator)
        self.bias = nn.Parameter(torch.zeros(self.num_classes)) if self.use_bias else None
        self.smoothing_over_all = smoothing_over_all(self.label_smoothing, self.smoothing, self.num_classes)

    def lr_multipliers(self) -> dict[str, float]:
        return {name: self.proxy_lr_multiplier for name, _ in self.named_parameters()}

    @torch.no_grad()
    def start_from(self, start: StartRows) -> None:
        """The classifier of the nearest class mean."""
        weight, bias = linear_classifier(start, temperature=self.temperature, bias=self.bias is not None)
        self.weight.copy_(weight)
        if self.bias is not None:
            self.bias.copy_(bias)

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        logits = self.logits(inputs.embeddings)
        return {"classification": mean_entropy(logits, inputs.labels, inputs.weights, self.smoothing_over_all)}

    def logits(self, embeddings: Tensor) -> Tensor:
        product = Geometry(embeddings, self.weight, normalize=False).similarity
        return softmax_logits(product, self.bias, temperature=self.temperature)
