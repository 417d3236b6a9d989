"""Margin: positives inside a boundary beta, negatives outside, both by a margin; the boundary may be learned."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from levelfield.errors import BadSpecification
from levelfield.geometry import Geometry
from levelfield.labels import class_table, hide_, put_
from levelfield.miners import MinerChoice
from levelfield.objectives._closed import Entries, attached, back_to_rows, wants_slope
from levelfield.objectives._contract import Facts, Given, Objective, register
from levelfield.objectives._proxies import check_classes
from levelfield.settings import number, one_of


def margin_terms(to_positive: Tensor, to_negative: Tensor, beta: Tensor, *, margin: float) -> tuple[Tensor, Tensor]:
    """[d_ap - beta + margin]+ and [beta - d_an + margin]+ (Wu et al. 2017; roth2020 eq. 10, which lost the brackets).

    >>> margin_terms(torch.tensor([1.0]), torch.tensor([1.5]), torch.tensor([1.0]), margin=0.25)
    (tensor([0.2500]), tensor([0.]))
    """
    return (to_positive - beta + margin).relu(), (beta - to_negative + margin).relu()


@register(
    "margin",
    Facts(
        paper="Wu et al. 2017",
        equation="Wu et al. 2017 eq. 5; roth2020 eq. 10",
        formula="sum([d_ap - beta + margin]+ + [beta - d_an + margin]+) / number of terms above 0",
        use="When triplets are too strict: one learned boundary parts near from far; with distance-weighted "
        "negatives a strong baseline.",
        tuples="triplets",
        memory=True,
        miners=("distance_weighted", "random", "semihard", "softhard", "batch_hard", "all"),
        sources={
            "margin": "Wu et al. 2017, section 5; fehervari2019, roth2020",
            "beta": "Wu et al. 2017, section 5",
            "nu": "all published settings use 0",
            "divisor": "Wu et al. 2017, fehervari2019, PML; 'active_triplets': roth2020's code on a current torch",
            "beta_lr_multiplier": "roth2020: 5e-4 for beta, 1e-5 for the network",
            "beta_optimiser": "the conditions'; fehervari2019 trains beta by SGD at 0.1 with momentum 0.9",
            "miner": "Wu et al. 2017",
        },
        search={"beta": (0.4, 1.4, "linear"), "beta_lr_multiplier": (0.1, 50, "log"), "margin": (0.05, 0.4, "log")},
    ),
)
class Margin(Objective):
    """Margin loss with one boundary `beta`, or one per class (`beta_per_class`, looked up by the anchor's class).

    `nu` pulls the boundary down: `nu` times the anchors' betas, over the divisor (`nu_reduction="pairs"`) or not
    (`"sum"`, roth2020's code). `beta_optimiser` trains the boundary by another optimiser than the conditions' one.
    Memory: O(batch * batch), also for all triplets (`miner="all"`).

    >>> loss = Margin(beta=1.2, miner="all")
    >>> loss.terms(torch.eye(4), torch.tensor([0, 0, 1, 1]))["pull"].item()  # 16 terms, the 8 pulls above 0
    0.414...
    """

    beta: Tensor

    def __init__(
        self,
        *,
        margin: float = 0.2,
        beta: float = 1.2,
        learn_beta: bool = True,
        beta_per_class: bool = False,
        num_classes: int | None = None,
        nu: float = 0.0,
        nu_reduction: Literal["pairs", "sum"] = "pairs",
        divisor: Literal["active_pairs", "active_triplets"] = "active_pairs",
        normalize: bool = True,
        beta_lr_multiplier: float = 50.0,
        beta_optimiser: Literal["adam", "adamw", "radam", "rmsprop", "sgd"] | None = None,
        miner: MinerChoice = "distance_weighted",
        switch: float = 0.0,
    ) -> None:
        super().__init__(miner=miner, switch=switch, margin=margin)
        self.margin = number("margin", margin)
        self.nu = number("nu", nu)
        self.nu_reduction = one_of("nu_reduction", nu_reduction, ("pairs", "sum"))
        self.divisor = one_of("divisor", divisor, ("active_pairs", "active_triplets"))
        self.normalize = one_of("normalize", normalize, (True, False))
        self.beta_lr_multiplier = number("beta_lr_multiplier", beta_lr_multiplier, least=0)
        kinds = ("adam", "adamw", "radam", "rmsprop", "sgd", None)
        self.beta_optimiser = one_of("beta_optimiser", beta_optimiser, kinds)
        self.beta_per_class = one_of("beta_per_class", beta_per_class, (True, False))
        if beta_per_class and num_classes is None:
            raise BadSpecification("'margin' with beta_per_class needs num_classes.")
        start = torch.full((num_classes or 1,) if beta_per_class else (1,), number("beta", beta))
        if one_of("learn_beta", learn_beta, (True, False)):
            self.beta = nn.Parameter(start)
        else:
            self.register_buffer("beta", start)

    def lr_multipliers(self) -> dict[str, float]:
        return {"beta": self.beta_lr_multiplier} if isinstance(self.beta, nn.Parameter) else {}

    def optimisers(self) -> dict[str, str]:
        return {"beta": self.beta_optimiser} if isinstance(self.beta, nn.Parameter) and self.beta_optimiser else {}

    def parts(self, given: Given) -> dict[str, Tensor]:
        geometry = given.geometry(normalize=self.normalize)
        if self.beta_per_class:
            check_classes(given.labels, len(self.beta), self._label)
        triplets = self.chosen_triplets(geometry, given)
        if triplets is None:
            return self._of_everything(geometry, given)
        anchor, positive, negative = triplets.T
        beta = self._beta(given.labels.index_select(0, anchor))
        pull, push = margin_terms(
            geometry.distance_of(anchor, positive), geometry.distance_of(anchor, negative), beta, margin=self.margin
        )
        pulled, pushed = pull.detach() > 0, push.detach() > 0
        active = pulled.sum() + pushed.sum() if self.divisor == "active_pairs" else (pulled | pushed).sum()
        if given.weights is not None:
            weights = given.weights.index_select(0, anchor)
            pull, push = pull * weights, push * weights
        return self._divided(pull.sum(), push.sum(), beta.expand_as(pull).sum(), active)

    def quick(self, given: Given) -> Tensor | None:
        if given.weights is not None:
            return None
        geometry = Geometry(given.embeddings.detach(), normalize=self.normalize)
        if self.beta_per_class:
            check_classes(given.labels, len(self.beta), self._label)
        triplets = self.chosen_triplets(geometry, given)
        value: Tensor
        slope: Tensor | Entries
        if triplets is None:
            value, slope, of_beta = self._quick_everything(geometry, given)
        else:
            value, slope, of_beta = self._quick_triplets(geometry, given, triplets)
        inputs = [given.embeddings, self.beta]
        if not wants_slope(*inputs):
            return value

        def slopes(upstream: Tensor) -> list[Tensor]:
            return [back_to_rows(geometry, slope, "distance").mul_(upstream), of_beta * upstream]

        return attached(value, inputs, slopes, self.definition(given._replace(tuples=triplets)))

    def _quick_triplets(self, geometry: Geometry, given: Given, triplets: Tensor) -> tuple[Tensor, Entries, Tensor]:
        first, second = triplets[:, :1].expand(-1, 2).T.reshape(-1), triplets[:, 1:].T.reshape(-1)
        distance = geometry.distance_of(first, second)
        classes = given.labels.index_select(0, triplets[:, 0])
        beta = self._beta(classes).detach().to(distance.dtype)
        to_positive, to_negative = distance.view(2, -1)
        hinges = torch.stack(margin_terms(to_positive, to_negative, beta, margin=self.margin))
        above = torch.gt(hinges, 0, out=torch.empty_like(hinges))
        active = (above if self.divisor == "active_pairs" else above.amax(0)).sum()
        moved = above[1] - above[0]  # what each triplet does to its boundary
        above[1].neg_()
        pull, push = hinges.sum(1)
        value, scale, nu = self._quickly_divided(pull, push, beta.expand(len(classes)).sum(), active.long())
        slope = Entries(first, second, above.view(-1) * scale, distance)
        return value, slope, self._to_beta(moved * scale + nu, classes)

    def _quick_everything(self, geometry: Geometry, given: Given) -> tuple[Tensor, Tensor, Tensor]:
        """Negatives are what is left of the matrix when the few positives are hidden."""
        table, distance, n = class_table(given.labels), geometry.distance, len(given.labels)
        beta = self._beta(given.labels).detach().to(distance.dtype).expand(n)
        positives = table.counts
        negatives = n - 1 - positives
        pull = ((distance.gather(1, table.others) - beta[:, None] + self.margin) * table.valid).relu_()
        push = hide_((beta[:, None] + self.margin) - distance, table, -torch.inf).relu_()
        near, far = (pull.sum(1) * negatives).sum(), (push.sum(1) * positives).sum()
        slope = torch.gt(push, 0, out=push)
        pulled, pushed = (pull > 0).sum(1), slope.sum(1)
        if self.divisor == "active_pairs":
            active = (pulled * negatives + pushed.long() * positives).sum()
        else:
            active = (positives * negatives - (positives - pulled) * (negatives - pushed.long())).sum()
        pairs = positives * negatives
        value, scale, nu = self._quickly_divided(near, far, (beta * pairs).sum(), active)
        moved = (pushed * positives - pulled * negatives) * scale + nu * pairs
        slope *= (-scale * positives)[:, None]
        put_(slope, table, (pull > 0) * (scale * negatives)[:, None])
        return value, slope, self._to_beta(moved, given.labels)

    def _quickly_divided(
        self, pull: Tensor, push: Tensor, betas: Tensor, active: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Value, the factor of every term's slope, and what `nu` adds to the slope of each triplet's beta."""
        value = self.total(self._divided(pull, push, betas, active))
        scale = active.clamp_min(1).to(pull.dtype).reciprocal()
        return value, scale, self.nu * (scale if self.nu_reduction == "pairs" else torch.ones_like(scale))

    def _to_beta(self, moved: Tensor, classes: Tensor) -> Tensor:
        moved = moved.to(self.beta.dtype)
        if self.beta_per_class:
            return torch.zeros_like(self.beta).index_add_(0, classes, moved)
        return moved.sum().reshape(1)

    def _of_everything(self, geometry: Geometry, given: Given) -> dict[str, Tensor]:
        """Over all triplets each positive pair counts once per negative of its anchor, and the other way round."""
        positive, negative = given.class_masks()
        positives, negatives = positive.sum(1), negative.sum(1)
        beta = self._beta(given.labels[: len(positive)]).expand(len(positive))
        pull, push = margin_terms(geometry.distance, geometry.distance, beta[:, None], margin=self.margin)
        pulled = ((pull.detach() > 0) & positive).sum(1)
        pushed = ((push.detach() > 0) & negative).sum(1)
        pull, push = (pull * positive).sum(1), (push * negative).sum(1)
        if self.divisor == "active_pairs":
            active = (pulled * negatives + pushed * positives).sum()
        else:
            active = (positives * negatives - (positives - pulled) * (negatives - pushed)).sum()
        weights = torch.ones_like(pull) if given.weights is None else given.weights
        return self._divided(
            (weights * pull * negatives).sum(),
            (weights * push * positives).sum(),
            (beta * (positives * negatives)).sum(),
            active,
        )

    def _beta(self, labels: Tensor) -> Tensor:
        return self.beta.index_select(0, labels) if self.beta_per_class else self.beta

    def _divided(self, pull: Tensor, push: Tensor, betas: Tensor, active: Tensor) -> dict[str, Tensor]:
        self.active = active
        divisor = active.clamp_min(1)
        terms = {"pull": pull / divisor, "push": push / divisor}
        if self.nu:
            terms["beta"] = self.nu * (betas / divisor if self.nu_reduction == "pairs" else betas)
        return terms
