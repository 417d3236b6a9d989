"""Angular: constrains the angle at the negative of each triplet, with an n-pair term on the raw rows."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from annotated_types import Gt, Le
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import ClassTable, class_masks, class_table, hide_, on_host, positive_pairs, to_device
from levelfield.objectives._contract import LossInputs, ObjectiveFacts, register
from levelfield.objectives._parts.closed import LOG2_E, back_to_rows, closed
from levelfield.objectives._parts.sums import (
    exponential_sums_,
    log_one_plus_exp,
    log_sum_exp,
    mean_norm,
    sum_over_blocks,
)
from levelfield.objectives.n_pair import PairForms, quick_n_pair

_BLOCK = 2**18  # values at a time, to fit in the cache


def angular_terms(to_negatives: Tensor, to_positive: Tensor, negative: Tensor, *, alpha: float) -> Tensor:
    """log(1 + sum_n e^f_apn) of each pair (N,), f = 4 tan^2(alpha) (x_a + x_p).x_n - 2 (1 + tan^2(alpha)) x_a.x_p.

    to_negatives: (N, m) products (x_a + x_p).x_n. to_positive: (N,) products x_a.x_p. negative: (N, m) mask.
    alpha: degrees.

    >>> angular_terms(torch.tensor([[0.5, 9.0]]), torch.tensor([0.5]), torch.tensor([[True, False]]), alpha=45.0)
    tensor([0.6931])
    """
    push, pull = strengths(alpha)
    some = negative.any(1)
    return log_one_plus_exp((log_sum_exp(push * to_negatives, negative) - pull * to_positive) * some) * some


def strengths(alpha: float) -> tuple[float, float]:
    """4 tan^2(alpha) and 2 (1 + tan^2(alpha)), alpha in degrees.

    >>> [round(strength, 9) for strength in strengths(45.0)]
    [4.0, 4.0]
    """
    square = math.tan(math.radians(alpha)) ** 2
    return 4 * square, 2 * (1 + square)


@register(
    "angular",
    ObjectiveFacts(
        paper="Wang et al. 2017",
        equation="fehervari2019 eq. 4-5; roth2020 eq. 5",
        formula="npair_weight n_pair + angular_weight mean_(a,p) log(1 + sum_n e^(4 tan^2(alpha) (x_a + x_p).x_n "
        "- 2 (1 + tan^2(alpha)) x_a.x_p)) + nu mean_i |x_i|^nu_power",
        use="When the angle of a triplet should matter and not its scale; its n-pair part expects raw rows, so "
        "watch their norms.",
        tuples="pairs",
        roles=("anchor", "positive"),
        miners=("n_pair", "all", "random"),
        sources={
            "alpha": "fehervari2019; roth2020 A.1 (PML: 40)",
            "form": "roth2020 code; 'pairs' is fehervari2019",
            "normalize": "roth2020 code (fehervari2019: raw rows)",
            "angular_weight": "roth2020 A.1 (fehervari2019: 1)",
            "npair_weight": "roth2020 A.1 (fehervari2019: 0)",
            "nu": "roth2020 A.1 (fehervari2019 code: 0.0005)",
            "nu_power": "roth2020 eq. 5 (its code: 1)",
            "miner": "roth2020 code",
        },
        search={"alpha": (30.0, 55.0, "linear"), "angular_weight": (0.5, 4.0, "log")},
    ),
)
class Angular(PairForms):
    """Angular loss with its n-pair term. Memory: O(batch * batch).

    The forms are those of `n_pair`; `normalize` applies to the angular part, while the n-pair part and the norm term
    always use raw rows. In the form `all`, the angular mean is over all ordered positive pairs.

    >>> Angular(form="all", nu=0.0).terms(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    {'n_pair': tensor(1.0986), 'angular': tensor(2.1972)}
    """

    alpha: Annotated[float, Gt(0), Le(89)] = 45.0
    normalize: bool = True
    angular_weight: float = 2.0
    npair_weight: float = 1.0

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        raw = Geometry(inputs.embeddings, normalize=False)
        pairs = self.pairs_of(raw, inputs)
        angular, self.active = self._angular(Geometry(inputs.embeddings, normalize=self.normalize), pairs, inputs)
        parts = {}
        if self.npair_weight:
            loss, active = self.n_pair_term(raw, pairs, inputs)
            parts["n_pair"] = self.npair_weight * loss
            self.active = self.active + active
        parts["angular"] = self.angular_weight * angular
        return parts | self.norm_term(raw.rows, pairs, inputs)

    def _angular(self, geometry: Geometry, pairs: Tensor | None, inputs: LossInputs) -> tuple[Tensor, Tensor]:
        """Mean over the pairs, and the number of terms above 0."""
        weights = inputs.weights
        if weights is None:
            weights = torch.ones_like(inputs.labels, dtype=geometry.rows.dtype)
        _, negative = class_masks(inputs.labels)
        listed = positive_pairs(inputs.labels) if pairs is None else pairs
        divisor = max(1, len(listed))
        if self.form == "pairs":
            loss, active = self._of_pair_batch(geometry.rows[listed], inputs.labels[listed[:, 0]], weights[listed])
            return loss / divisor, active
        active = torch.zeros((), dtype=torch.int64, device=listed.device)

        def block_sum(similarity: Tensor, block: Tensor) -> Tensor:
            anchor, other = block.T
            to_both = similarity[anchor] + similarity[other]
            terms = angular_terms(to_both, similarity[anchor, other], negative[anchor], alpha=self.alpha)
            active.add_((terms.detach() > 0).sum())
            return (terms * weights[anchor]).sum()

        return sum_over_blocks(block_sum, geometry.similarity, listed) / divisor, active

    def _of_pair_batch(self, rows: Tensor, labels: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Sum over pairs, rows (N, 2, d), each against the positives of the other pairs."""
        ends = rows.unbind(1)
        negative = labels[:, None] != labels[None, :]
        totals, active = [], labels.new_zeros(())
        for which in (0, 1) if self.symmetric else (0,):
            first, second = ends[which], ends[1 - which]
            both = (first + second) @ second.T
            terms = angular_terms(both, (first * second).sum(1), negative, alpha=self.alpha)
            totals.append((terms * weights[:, which]).sum())
            active = active + (terms.detach() > 0).sum()
        return torch.stack(totals).mean(), active

    def quick(self, inputs: LossInputs) -> Tensor | None:
        if self.form == "pairs":
            return None
        rows, table = inputs.embeddings.detach(), class_table(inputs.labels)
        raw = Geometry(rows, normalize=False)
        geometry = Geometry(rows, normalize=True) if self.normalize else raw
        pairs = self.pairs_of(raw, inputs)
        push, pull = strengths(self.alpha)
        listed = pairs
        if listed is None:  # every unordered pair: both orders have the same term
            positive, _ = class_masks(on_host(inputs.labels))
            listed = to_device(positive.triu(1).nonzero(), inputs.labels.device)
        angular, slope, active = quick_angular(geometry.similarity, table, listed, push=push, pull=pull)
        self.active = active * (2 if pairs is None else 1)
        terms, of_products = {"angular": self.angular_weight * angular}, None
        if self.npair_weight:
            loss, of_products, active = quick_n_pair(raw.similarity, table, pairs)
            terms["n_pair"] = self.npair_weight * loss
            self.active = self.active + active
        norm, add_norm_slope_ = mean_norm(raw, self.nu, self.nu_power)

        def also(gradient: Tensor) -> None:
            if of_products is not None:
                gradient.add_(back_to_rows(raw, of_products, "similarity"), alpha=self.npair_weight)
            add_norm_slope_(gradient)

        slope.mul_(self.angular_weight)
        return closed(self, inputs, geometry, terms | norm, slope, "similarity", also)


def quick_angular(
    similarity: Tensor, table: ClassTable, pairs: Tensor, *, push: float, pull: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean of log(1 + sum_n e^(push (s_an + s_pn) - pull s_ap)) over the pairs (N, 2), its slope dL/ds (n, n), and the
    number of terms above 0."""
    negatives = hide_(similarity * (push * LOG2_E), table, -torch.inf)
    slope = torch.zeros_like(similarity)
    value, active = similarity.new_zeros(()), pairs.new_zeros(())
    count = max(1, len(pairs))
    for anchor, other in (block.T for block in pairs.split(max(1, _BLOCK // len(similarity)))):
        exponents = negatives.index_select(0, anchor).add_(similarity.index_select(0, other), alpha=push * LOG2_E)
        log_sum, exponentials, total = exponential_sums_(exponents)
        excess = log_sum.squeeze(1) - pull * similarity[anchor, other]
        terms, share = log_one_plus_exp(excess), excess.sigmoid().div_(count)
        value, active = value + terms.sum(), active + (terms > 0).sum()
        exponentials.mul_((share * push)[:, None] / total)
        slope.index_add_(0, anchor, exponentials).index_add_(0, other, exponentials)
        slope.index_put_((anchor, other), -pull * share, accumulate=True)
    return value / count, slope, active
