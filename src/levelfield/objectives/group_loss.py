"""Group loss: refines class probabilities by similarity within the batch, then compares them with labels."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from levelfield.geometry import unit
from levelfield.labels import on_host, to_device
from levelfield.objectives._contract import LossInputs, ObjectiveFacts, register
from levelfield.objectives._parts.proxies import ClassObjective, start_proxies
from levelfield.objectives._parts.start import StartRows, linear_classifier
from levelfield.settings import Natural, NotNegative, Positive


def positive_correlation(rows: Tensor, *, zero_diagonal: bool = False) -> Tensor:
    """W_ij = max(0, Pearson correlation of the rows i and j) (b, b). 0 for a constant row, also with itself.

    >>> positive_correlation(torch.tensor([[1.0, 2.0], [5.0, 9.0], [2.0, 1.0], [3.0, 3.0]])).round(decimals=3)
    tensor([[1., 1., 0., 0.],
            [1., 1., 0., 0.],
            [0., 0., 1., 0.],
            [0., 0., 0., 0.]])
    """
    shifted = rows - rows.detach()[:, :1]  # shift first, so that a constant row is exactly 0
    centred = unit(shifted - shifted.mean(1, keepdim=True))
    similarity = (centred @ centred.T).relu()
    if zero_diagonal:
        similarity = similarity * (1 - torch.eye(len(rows), dtype=rows.dtype, device=rows.device))
    return similarity


def refined(prior: Tensor, similarity: Tensor, *, iterations: int = 1) -> Tensor:
    """`iterations` times X <- X * (W X), rows divided by their sums; a row without support is unchanged.

    >>> prior = torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]])
    >>> refined(prior, torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    tensor([[1.0000, 0.0000],
            [1.0000, 0.0000],
            [0.5000, 0.5000]])
    """
    probabilities = prior
    for _ in range(iterations):
        product = probabilities * (similarity @ probabilities)
        total = product.sum(1, keepdim=True)
        lonely = total.detach() <= 0
        probabilities = torch.where(lonely, probabilities, product / total.masked_fill(lonely, 1))
    return probabilities


class GroupTerms(NamedTuple):
    """W (b, b), final probabilities X (b, C), and both losses of each sample (b,)."""

    similarity: Tensor
    probabilities: Tensor
    group: Tensor
    cross_entropy: Tensor


def group_loss_terms(
    features: Tensor,
    logits: Tensor,
    labels: Tensor,
    anchors: Tensor,
    *,
    temperature: float = 24.0,
    iterations: int = 1,
    zero_diagonal: bool = False,
    eps: float = 1e-12,
) -> GroupTerms:
    """-log(X_i,y + eps), where X starts at softmax(logits / temperature) and at their labels for the anchors.

    features: (b, d). logits: (b, C). anchors: (a,) rows of the batch.

    >>> features, logits = torch.tensor([[1.0, 2.0], [1.0, 2.0]]), torch.zeros(2, 2)
    >>> group_loss_terms(features, logits, torch.tensor([0, 1]), torch.tensor([1])).probabilities
    tensor([[0.2500, 0.7500],
            [0.0000, 1.0000]])
    """
    similarity = positive_correlation(features, zero_diagonal=zero_diagonal)
    known = functional.one_hot(labels, logits.shape[1]).to(logits.dtype)
    is_anchor = torch.zeros_like(labels, dtype=torch.bool).index_fill(0, anchors, True)[:, None]
    prior = torch.where(is_anchor, known, (logits / temperature).softmax(1))
    probabilities = refined(prior, similarity, iterations=iterations)
    group = -(probabilities.gather(1, labels[:, None])[:, 0] + eps).log()
    return GroupTerms(similarity, probabilities, group, functional.cross_entropy(logits, labels, reduction="none"))


def draw_anchors(labels: Tensor, anchors_per_class: int, generator: torch.Generator) -> Tensor:
    """Draw anchors from each class, but never all rows of a class: at least one must be left to classify.

    >>> labels = torch.tensor([5, 8, 5, 8, 8, 9])
    >>> labels[draw_anchors(labels, 2, torch.Generator())]
    tensor([5, 8, 8])
    """
    host = on_host(labels)
    shuffled = torch.rand(len(host), generator=generator, device=generator.device).argsort().cpu()
    order = shuffled[host[shuffled].argsort(stable=True)]
    _, classes, counts = host[order].unique_consecutive(return_inverse=True, return_counts=True)
    rank = torch.arange(len(host)) - (counts.cumsum(0) - counts)[classes]
    return to_device(order[rank < (counts - 1).clamp_max(anchors_per_class)[classes]], labels.device)


@register(
    "group_loss",
    ObjectiveFacts(
        paper="Elezi et al. 2020",
        equation="Elezi et al. 2020 and the released code",
        formula="mean_i -log(X_i,y + eps) + mean_i CE(z_i, y), X <- X * (W X), W = [correlation]+, z = rows . weight",
        use="To fine-tune a network trained as a classifier, with many images of each class in a batch.",
        batch="6 or more per class",
        roles=("anchors",),
        sources={
            "temperature": "Elezi et al. 2020: 24 on CUB (79 CARS, 54 SOP)",
            "iterations": "Elezi et al. 2020",
            "anchors_per_class": "Elezi et al. 2020: 2 of 9 on CUB (3 of 7 CARS, 2 of 6 SOP)",
            "zero_diagonal": "authors' code",
            "group_weight": "authors' code",
            "cross_entropy_weight": "authors' code",
            "eps": "authors' code",
            "weight_lr_multiplier": "authors' code: the network's rate",
        },
        search={
            "temperature": (1, 100, "log"),
            "iterations": [1, 2, 3],
            "anchors_per_class": [1, 2, 3],
            "weight_lr_multiplier": (0.1, 1000, "log"),
        },
        tags={"order_of_the_batch_is_irrelevant": "the draw of anchors depends on their position in the batch"},
    ),
)
class GroupLoss(ClassObjective):
    """Group loss with its own linear classifier `weight` (num_classes, dim). Labels are 0..num_classes-1.

    Anchors are redrawn in each call, or given as roles={"anchors": rows}. The paper first trains the network as a
    classifier. Memory: O(batch * (batch + num_classes)).

    >>> sorted(GroupLoss(num_classes=2, dim=4).terms(torch.eye(4), torch.tensor([0, 0, 1, 1])))
    ['cross_entropy', 'group']
    """

    normalize = False  # rows are used as given

    temperature: Positive = 24.0
    iterations: Natural = 1
    anchors_per_class: Natural = 2
    zero_diagonal: bool = False
    group_weight: NotNegative = 1.0
    cross_entropy_weight: NotNegative = 1.0
    eps: Positive = 1e-12
    weight_lr_multiplier: NotNegative = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.weight = start_proxies(self.num_classes, self.dim, init="uniform", generator=self.generator)

    def lr_multipliers(self) -> dict[str, float]:
        return {"weight": self.weight_lr_multiplier}

    @torch.no_grad()
    def start_from(self, start: StartRows) -> None:
        """The classifier of the class mean at the smallest angle. The cross-entropy uses logits without temperature."""
        self.weight.copy_(linear_classifier(start, bias=False)[0])

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        if inputs.roles is None:
            anchors = draw_anchors(inputs.labels, self.anchors_per_class, inputs.generator)
        else:
            anchors = to_device(inputs.rows_of_roles(self.who, ("anchors",))["anchors"], inputs.labels.device)
        losses = group_loss_terms(
            inputs.embeddings,
            inputs.embeddings @ self.weight.to(inputs.embeddings.dtype).T,
            inputs.labels,
            anchors,
            temperature=self.temperature,
            iterations=self.iterations,
            zero_diagonal=self.zero_diagonal,
            eps=self.eps,
        )
        group, cross_entropy = (inputs.weighted(terms).sum() / max(1, len(terms)) for terms in losses[2:])
        return {"group": self.group_weight * group, "cross_entropy": self.cross_entropy_weight * cross_entropy}
