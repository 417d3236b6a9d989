"""N-pair: one positive against many negatives, by dot products of raw rows."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import ClassTable, class_masks, class_table
from levelfield.miners import MinerChoice
from levelfield.objectives._contract import Facts, LossInputs, Objective, register
from levelfield.objectives._parts.closed import attached, closed, through_unit, wants_slope
from levelfield.objectives._parts.pairs import Form, chosen_pairs, first_pairs
from levelfield.objectives._parts.sums import (
    add_norms_slope_,
    against_negatives,
    log_one_plus_exp,
    log_sum_exp,
    negatives,
    norms,
    norms_slope,
)


def n_pair_terms(similarity: Tensor, negative: Tensor) -> Tensor:
    """log(1 + sum_{n in N(a)} e^(s_an - s_ap)) for every positive p of a (roth2020 eq. 4): (n, n).

    >>> n_pair_terms(torch.eye(3), class_masks(torch.tensor([0, 0, 1]))[1])[0, 1]
    tensor(0.6931)
    """
    some = negative.any(1, keepdim=True)
    return log_one_plus_exp((log_sum_exp(similarity, negative)[:, None] - similarity) * some) * some


def pair_batch_terms(anchors: Tensor, positives: Tensor, labels: Tensor, *, soft_target: bool = False) -> Tensor:
    """Each pair against the positives of the others (fehervari2019 eq. 3 with the dot product): (N,).

    anchors, positives: rows (N, d). labels: class of each pair. Columns of the pair's own class are excluded; with
    `soft_target` (fehervari2019 code, TensorFlow) they are equal targets.

    >>> pair_batch_terms(torch.eye(2), torch.eye(2), torch.tensor([0, 1]))  # log(1 + 1/e)
    tensor([0.3133, 0.3133])
    """
    logits = anchors @ positives.T
    same = labels[:, None] == labels[None, :]
    if soft_target:
        return -(logits.log_softmax(1) * same).sum(1) / same.sum(1)
    return n_pair_terms(logits, ~same).diagonal()


@register(
    "n_pair",
    Facts(
        paper="Sohn 2016",
        equation="roth2020 eq. 4; fehervari2019 eq. 3",
        formula="1/b sum_a sum_p log(1 + sum_n e^(s_an - s_ap)) + nu mean_i |x_i|^nu_power",
        use="Two images of each of many classes: every pair is classified against all others in the batch.",
        tuples="pairs",
        roles=("anchor", "positive"),
        miners=("n_pair", "all", "random"),
        sources={
            "form": "roth2020 code; 'all' is roth2020 eq. 4, 'pairs' is fehervari2019, Sohn 2016",
            "nu": "roth2020 A.1 (fehervari2019 code: 0.0005)",
            "nu_power": "roth2020 eq. 4 (its code: 1)",
            "normalize": "Sohn 2016; fehervari2019; roth2020",
            "miner": "roth2020 code",
        },
        search={"nu": (0.0001, 0.05, "log"), "form": ("all", "sampled", "pairs")},
    ),
)
class NPair(Objective):
    """N-pair loss. Memory: O(batch * batch).

    `form="sampled"`: one positive per anchor (roth2020's code), mean over the pairs. `"all"`: every positive, divided
    by the batch size. `"pairs"`: one pair of each class, each against the positives of the other pairs (fehervari2019);
    `symmetric` averages with the roles swapped. Explicit tuples are pairs (N, 2), as are the roles {"anchor": rows,
    "positive": rows}; by default `sampled` uses the miner and `pairs` the first two rows of each class. `equal_class`
    sets the treatment of pairs of the same class in the form `pairs`.

    >>> loss = NPair(form="all", nu=0.0)
    >>> loss(torch.eye(4), torch.tensor([0, 0, 1, 1]))  # log(1 + 2)
    tensor(1.0986)
    """

    def __init__(
        self,
        *,
        form: Form = "sampled",
        nu: float = 0.005,
        nu_power: Literal[1, 2] = 2,
        symmetric: bool = False,
        normalize: bool = False,
        equal_class: Literal["left_out", "soft_target"] = "left_out",
        miner: MinerChoice = "n_pair",
    ) -> None:
        super().__init__(miner=miner if form == "sampled" else None)
        self.form, self.nu, self.nu_power, self.symmetric = form, nu, nu_power, symmetric
        self.normalize, self.equal_class = normalize, equal_class

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        geometry = Geometry(inputs.embeddings, normalize=self.normalize)
        pairs = chosen_pairs(self, geometry, inputs, self.form)
        terms, self.active = n_pair_loss(
            geometry,
            pairs,
            inputs,
            form=self.form,
            symmetric=self.symmetric,
            soft_target=self.equal_class == "soft_target",
        )
        parts = {"n_pair": terms}
        if self.nu:
            parts["norm"] = self.nu * norm_term(geometry.rows, pairs, inputs, self.form, self.nu_power)
        return parts

    def quick(self, inputs: LossInputs) -> Tensor | None:
        if inputs.weights is not None or not len(inputs.labels):
            return None
        if self.form == "pairs":
            return self._quick_pairs(inputs)
        geometry = Geometry(inputs.embeddings.detach(), normalize=self.normalize)
        pairs = chosen_pairs(self, geometry, inputs, self.form)
        loss, slope, self.active = quick_n_pair(geometry.similarity, class_table(inputs.labels), pairs)
        terms = {"n_pair": loss}
        if self.nu:
            terms["norm"] = self.nu * norms(geometry.rows, self.nu_power).mean()
        value, plain = self.total(terms), self.definition(inputs._replace(tuples=pairs))
        also = norms_slope(geometry, self.nu, self.nu_power)
        return closed(inputs.embeddings, geometry, value, slope, "similarity", plain, also)

    def _quick_pairs(self, inputs: LossInputs) -> Tensor | None:
        """One pair of each class: only its rows are used, and no column is of the pair's own class."""
        if inputs.tuples is not None or inputs.roles is not None:
            return None
        pairs = first_pairs(inputs.labels)
        listed, count = pairs.T.reshape(-1), max(1, len(pairs))
        geometry = Geometry(inputs.embeddings.detach().index_select(0, listed), normalize=self.normalize)
        anchors, positives = geometry.rows.chunk(2)
        loss, slope, self.active = quick_pair_batch(anchors @ positives.T, symmetric=self.symmetric)
        terms = {"n_pair": loss}
        if self.nu:
            terms["norm"] = self.nu * norms(geometry.rows, self.nu_power).sum() / count
        value = self.total(terms)
        if not wants_slope(inputs.embeddings):
            return value

        def slopes(upstream: Tensor) -> list[Tensor]:
            gradient = torch.cat((slope @ positives, slope.T @ anchors))
            if self.nu and not self.normalize:
                add_norms_slope_(gradient, geometry.rows, self.nu_power, self.nu / count)
            if geometry.lengths is not None:
                gradient = through_unit(gradient, geometry.rows, geometry.lengths)
            return [torch.zeros_like(inputs.embeddings).index_copy_(0, listed, gradient.mul_(upstream))]

        return attached(value, [inputs.embeddings], slopes, self.definition(inputs._replace(tuples=pairs)))


def n_pair_loss(
    geometry: Geometry,
    pairs: Tensor | None,
    inputs: LossInputs,
    *,
    form: Form,
    symmetric: bool = False,
    soft_target: bool = False,
) -> tuple[Tensor, Tensor]:
    """The loss in one of its forms, without the norm term, and the number of terms above 0."""
    weights = torch.ones_like(inputs.labels, dtype=geometry.rows.dtype) if inputs.weights is None else inputs.weights
    if pairs is None:
        positive, negative = class_masks(inputs.labels)
        terms = n_pair_terms(geometry.similarity, negative) * positive
        return (terms * weights[:, None]).sum() / max(1, len(terms)), (terms.detach() > 0).sum()
    anchor, other = pairs.T
    if form == "sampled":
        terms = n_pair_terms(geometry.similarity, class_masks(inputs.labels)[1])[anchor, other]
        return (terms * weights[anchor]).sum() / max(1, len(pairs)), (terms.detach() > 0).sum()
    rows, labels = geometry.rows, inputs.labels[anchor]
    terms = pair_batch_terms(rows[anchor], rows[other], labels, soft_target=soft_target)
    loss, active = (terms * weights[anchor]).sum(), (terms.detach() > 0).sum()
    if symmetric:
        swapped = pair_batch_terms(rows[other], rows[anchor], labels, soft_target=soft_target)
        loss = (loss + (swapped * weights[other]).sum()) / 2
    return loss / max(1, len(pairs)), active


def norm_term(rows: Tensor, pairs: Tensor | None, inputs: LossInputs, form: Form, power: int) -> Tensor:
    """mean_i |x_i|^power; in the form `pairs` the mean of |a|^power + |p|^power over the pairs."""
    lengths = norms(rows, power)
    if inputs.weights is not None:
        lengths = lengths * inputs.weights
    if form == "pairs" and pairs is not None:
        return lengths[pairs].sum() / max(1, len(pairs))
    return lengths.sum() / max(1, len(lengths))


def quick_pair_batch(logits: Tensor, *, symmetric: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Mean over pairs of log(1 + sum_{j != i} e^(z_ij - z_ii)), its slope, and the number of terms above 0.

    >>> loss, slope, active = quick_pair_batch(torch.zeros(2, 2), symmetric=False)
    >>> loss, slope
    (tensor(0.6931), tensor([[-0.2500,  0.2500],
            [ 0.2500, -0.2500]]))
    """
    count = max(1, len(logits))
    log_chances = logits.log_softmax(1)
    terms = -log_chances.diagonal()
    slope = log_chances.exp()
    loss = terms.sum()
    if symmetric:
        other_way = logits.log_softmax(0)
        loss = (loss - other_way.diagonal().sum()) / 2
        slope = (slope + other_way.exp()) / 2
    slope.diagonal().sub_(1)
    return loss / count, slope.div_(count), (terms > 0).sum()


def quick_n_pair(similarity: Tensor, table: ClassTable, pairs: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, its slope dL/ds (n, n) and the number of terms above 0; over all positives, or over `pairs`."""
    divisor = max(1, len(similarity) if pairs is None else len(pairs))
    if pairs is None:
        terms, slope = against_negatives(similarity, table, scale=1.0, divisor=divisor)
    else:
        log_sum, slope, total = negatives(similarity, table, 1.0)
        anchor, other = pairs.T
        excess = log_sum[anchor, 0] - similarity[anchor, other]
        share = excess.sigmoid().div_(divisor)
        slope.mul_(torch.zeros_like(total[:, 0]).index_add_(0, anchor, share)[:, None] / total)
        slope.index_put_((anchor, other), -share, accumulate=True)
        terms = log_one_plus_exp(excess)
    return terms.sum() / divisor, slope, (terms > 0).sum()
