"""Proxy anchor: each class's proxy against the whole batch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from levelfield.geometry import Geometry, unit
from levelfield.labels import on_host, to_device
from levelfield.objectives._contract import LossInputs, ObjectiveFacts, register
from levelfield.objectives._parts.class_scores import ClassScores, Gradients, differentiable
from levelfield.objectives._parts.closed import LOG2_E, wants_slope
from levelfield.objectives._parts.proxies import ProxyInit, ProxyObjective
from levelfield.objectives._parts.sums import log_one_plus_sum_exp
from levelfield.settings import NotNegative, Positive

MANY = 700  # proxies from which the closed form is faster


def proxy_anchor_terms(similarity: Tensor, member: Tensor, *, alpha: float, delta: float) -> tuple[Tensor, Tensor]:
    """Both log-sums of each proxy (C,); similarity and member: (C, b), proxies against samples.

    >>> member = torch.tensor([[True], [False]])
    >>> proxy_anchor_terms(torch.tensor([[1.0], [0.0]]), member, alpha=32.0, delta=0.0)
    (tensor([0., 0.]), tensor([0.0000, 0.6931]))
    """
    pull = log_one_plus_sum_exp((-alpha * (similarity - delta)).masked_fill(~member, -torch.inf))
    push = log_one_plus_sum_exp((alpha * (similarity + delta)).masked_fill(member, -torch.inf))
    return pull, push


@register(
    "proxy_anchor",
    ObjectiveFacts(
        paper="Kim et al. 2020",
        equation="Kim et al. 2020 eq. 4",
        formula="1/|C+| sum_c log(1 + sum_{y=c} e^(-alpha (s - delta))) "
        "+ 1/C sum_c log(1 + sum_{y!=c} e^(alpha (s + delta)))",
        use="Fixed classes and fast convergence: each proxy uses the whole batch, hard images count more.",
        least=(1, 1),
        sources={
            "alpha": "Kim et al. 2020, section 4.2",
            "delta": "Kim et al. 2020, section 4.2",
            "proxy_init": "authors' code: Kaiming normal, fan out",
            "proxy_lr_multiplier": "Kim et al. 2020, section 4.2: 100 times the network's rate",
        },
        published_lr=1e-4,
        search={"alpha": (8, 64, "log"), "delta": (0.0, 0.4, "linear"), "proxy_lr_multiplier": (1, 1000, "log")},
        weights=False,
    ),
)
class ProxyAnchor(ProxyObjective):
    """Proxy-anchor loss. Labels are 0..num_classes-1; all proxies are pushed, also those of absent classes.

    The closed form makes one pass over the proxies in chunks and stores no matrix of proxies and batch.

    >>> sorted(ProxyAnchor(num_classes=2, dim=4).terms(torch.eye(4), torch.tensor([0, 0, 1, 1])))
    ['negative', 'positive']
    """

    alpha: Positive = 32.0
    delta: float = 0.1
    proxy_init: ProxyInit = "kaiming_normal"
    proxy_lr_multiplier: NotNegative = 100.0

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        classes = len(self.proxies)
        geometry = Geometry(self.proxies, inputs.embeddings, normalize=True)  # the proxies are the anchors
        member = torch.arange(classes, device=inputs.labels.device)[:, None] == inputs.labels[None, :]
        pull, push = proxy_anchor_terms(geometry.similarity, member, alpha=self.alpha, delta=self.delta)
        return {"positive": pull.sum() / member.any(1).sum().clamp_min(1), "negative": push.sum() / classes}

    def quick(self, inputs: LossInputs) -> Tensor | None:
        if len(self.proxies) < MANY or inputs.embeddings.dtype != self.proxies.dtype:
            return None
        scores = ClassScores(inputs.embeddings, self.proxies, inputs.labels)
        slope = wants_slope(inputs.embeddings, self.proxies)
        terms, back = self.swept(scores, slope=slope, classes=len(self.proxies))
        return differentiable(self.total(terms), inputs, self.proxies, back)

    def swept(
        self, scores: ClassScores, *, slope: bool, classes: int, present: int | None = None
    ) -> tuple[dict[str, Tensor], Callable[[Tensor], Gradients]]:
        """The terms, and the gradients of their sum times an upstream gradient; slope: compute both in one sweep.

        classes, present: divisors of the terms, the number of proxies and of classes in the batch (None: counted).
        """
        gradients = Gradients(scores, 1.0) if slope else None
        terms = self._sweep(scores, gradients, classes, present)
        kept = [gradients]  # used by the first backward; a second one recomputes it

        def back(gradient: Tensor) -> Gradients:
            first = kept.pop() if kept else None
            if first is None:
                self._sweep(scores, first := Gradients(scores, 1.0), classes, present)
            return first.times_(gradient)

        return terms, back

    def _sweep(
        self, scores: ClassScores, gradients: Gradients | None, classes: int, present: int | None
    ) -> dict[str, Tensor]:
        """The terms, proxy by proxy because they are independent; gradients are added to `gradients`."""
        factor = self.alpha * LOG2_E
        labels = scores.here_labels
        target = (scores.rows[scores.here] * unit(scores.vectors[labels])).sum(1)
        pull, target_slope = self._pull(target, labels, present)
        pull_slope = target.new_zeros(len(scores.rows))
        pull_slope[scores.here] = target_slope
        push, buffer = pull.new_zeros(()), scores.buffer()
        for chunk in scores.chunks:
            cosine = scores.block(chunk)
            weights = torch.mul(cosine, factor, out=buffer[: len(cosine)])
            weights[chunk.targets] = -torch.inf
            # With the shift the largest exponent is 0; the 1 of log(1 + sum) is e^0 before it.
            top = (weights.amax(1, keepdim=True) + factor * self.delta).clamp_min_(0)
            weights.add_(factor * self.delta - top).exp2_()
            sums = weights.sum(1, keepdim=True) + (-top).exp2_()
            push += (top + sums.log2()).sum()
            if gradients is not None:
                weights.mul_(self.alpha / classes / sums)
                weights[chunk.targets] = pull_slope[chunk.targets[1]]
                gradients.add(chunk, cosine, weights)
        return {"positive": pull, "negative": push / (LOG2_E * classes)}

    def _pull(self, cosine: Tensor, labels: Tensor, present: int | None) -> tuple[Tensor, Tensor]:
        """First sum of the loss from the cosines to the proxies of the labels, and its derivative by each of them."""
        classes, class_of = (to_device(part, cosine.device) for part in on_host(labels).unique(return_inverse=True))
        count = len(classes) if present is None else present
        exponent = -self.alpha * (cosine - self.delta)
        top = cosine.new_zeros(len(classes)).scatter_reduce_(0, class_of, exponent, "amax")  # at least 0, for the 1
        each = (exponent - top[class_of]).exp_()
        sums = (-top).exp_().index_add_(0, class_of, each)
        return (top + sums.log()).sum() / count, each.div_(sums[class_of]).mul_(-self.alpha / count)
