"""Proxy anchor: each class's proxy against the whole batch."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.geometry import Geometry, unit
from levelfield.objectives._class_scores import ClassScores, Gradients, differentiable, pays
from levelfield.objectives._closed import LOG2_E, wants_slope
from levelfield.objectives._contract import Facts, Given, register
from levelfield.objectives._proxies import ProxyInit, ProxyObjective
from levelfield.objectives._sums import log_one_plus_sum_exp
from levelfield.settings import number


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
    Facts(
        paper="Kim et al. 2020",
        equation="Kim et al. 2020 eq. 4",
        formula="1/|C+| sum_c log(1 + sum_{y=c} e^(-alpha (s - delta))) "
        "+ 1/C sum_c log(1 + sum_{y!=c} e^(alpha (s + delta)))",
        use="Fixed classes and fast convergence: each proxy uses the whole batch, hard images count more.",
        tuples="none",
        needs=("num_classes", "dim"),
        batch="any",
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

    >>> loss = ProxyAnchor(num_classes=2, dim=4)
    >>> sorted(loss.terms(torch.eye(4), torch.tensor([0, 0, 1, 1])))
    ['negative', 'positive']
    """

    def __init__(
        self,
        *,
        num_classes: int,
        dim: int,
        alpha: float = 32.0,
        delta: float = 0.1,
        proxy_init: ProxyInit = "kaiming_normal",
        proxy_lr_multiplier: float = 100.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(num_classes, dim, proxy_init, proxy_lr_multiplier, generator)
        self.alpha = number("alpha", alpha, above=0)
        self.delta = number("delta", delta)

    def parts(self, given: Given) -> dict[str, Tensor]:
        classes = len(self.proxies)
        geometry = Geometry(self.proxies, given.embeddings, normalize=True)  # the proxies are the anchors
        member = torch.arange(classes, device=given.labels.device)[:, None] == given.labels[None, :]
        pull, push = proxy_anchor_terms(geometry.similarity, member, alpha=self.alpha, delta=self.delta)
        return {"positive": pull.sum() / member.any(1).sum().clamp_min(1), "negative": push.sum() / classes}

    def quick(self, given: Given) -> Tensor | None:
        if not len(given.labels) or not pays(given, self.proxies):
            return None
        scores = ClassScores(given.embeddings, self.proxies, given.labels)
        found = Gradients(scores, 1.0) if wants_slope(given.embeddings, self.proxies) else None
        value = self._sweep(scores, found)
        kept = [found]  # used by the first backward; a second one recomputes it

        def back(gradient: Tensor) -> Gradients:
            first = kept.pop() if kept else None
            if first is None:
                self._sweep(scores, first := Gradients(scores, 1.0))
            return first.times_(gradient)

        return differentiable(value, given, self.proxies, back, self.definition(given))

    def _sweep(self, scores: ClassScores, found: Gradients | None) -> Tensor:
        """The loss, proxy by proxy because they are independent; gradients are added to `found`."""
        classes, factor = len(self.proxies), self.alpha * LOG2_E
        own = (scores.rows * unit(scores.vectors[scores.labels])).sum(1)
        pull, pull_slope = self._pull(own, scores.labels)
        push = pull.new_zeros(())
        cosines, buffer = scores.buffer(), scores.buffer()
        for chunk in scores.chunks:
            cosine = scores.compute(chunk, cosines[: len(scores.vectors[chunk.vectors])])
            weights = torch.mul(cosine, factor, out=buffer[: len(cosine)])
            weights[chunk.own] = -torch.inf
            # With the shift the largest exponent is 0; the 1 of log(1 + sum) is e^0 before it.
            top = (weights.amax(1, keepdim=True) + factor * self.delta).clamp_min_(0)
            weights.add_(factor * self.delta - top).exp2_()
            sums = weights.sum(1, keepdim=True) + (-top).exp2_()
            push += (top + sums.log2()).sum()
            if found is not None:
                weights.mul_(self.alpha / classes / sums)
                weights[chunk.own] = pull_slope[chunk.own[1]]
                found.add(chunk, cosine, weights)
        return self.total({"positive": pull, "negative": push / (LOG2_E * classes)})

    def _pull(self, own: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """First sum of the loss from the cosines to the own proxies, and its derivative by each of them."""
        present, class_of = labels.unique(return_inverse=True)
        exponent = -self.alpha * (own - self.delta)
        top = own.new_zeros(len(present)).scatter_reduce_(0, class_of, exponent, "amax")  # at least 0, for the 1
        each = (exponent - top[class_of]).exp_()
        sums = (-top).exp_().index_add_(0, class_of, each)
        return (top + sums.log()).mean(), each.div_(sums[class_of]).mul_(-self.alpha / len(present))
