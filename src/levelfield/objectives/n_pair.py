"""N-pair: one positive against many negatives, by dot products of raw rows.

Without postponed annotations: `angular` inherits the types of settings.
"""

from typing import Literal

import torch
from torch import Tensor

from levelfield.errors import BadInput
from levelfield.geometry import Geometry
from levelfield.labels import ClassTable, class_masks, class_table, on_host, positive_pairs, put_, to_device
from levelfield.miners import MinerChoice
from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, register
from levelfield.objectives._parts.closed import attached, closed, through_unit
from levelfield.objectives._parts.sums import log_one_plus_exp, log_sum_exp, mean, mean_norm, negatives, norms


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
    return n_pair_terms(logits, ~same).diagonal().contiguous()


class PairForms(Objective):
    """What `n_pair` and `angular` share: the forms with their pairs, the n-pair term and the norm term."""

    form: Literal["all", "sampled", "pairs"] = "sampled"
    nu: float = 0.005
    nu_power: Literal[1, 2] = 2
    symmetric: bool = False
    miner: MinerChoice | None = "n_pair"

    def __post_init__(self) -> None:
        if self.form != "sampled":
            self.miner = None
        super().__post_init__()

    def pairs_of(self, geometry: Geometry, inputs: LossInputs) -> Tensor | None:
        """The pairs (N, 2) of the call, of its roles, of the miner, or by default; None for the form `all`."""
        if self.form == "all":
            if inputs.tuples is not None:
                raise BadInput(f"{self.who} with form 'all' uses every pair and takes no tuples.")
            return None
        if inputs.tuples is None and inputs.roles is not None:
            rows = inputs.rows_of_roles(self.who, ("anchor", "positive"))
            anchors, positives = rows["anchor"], rows["positive"]
            if anchors.shape != positives.shape or anchors.dim() != 1:
                raise BadInput(f"{self.who} got {len(anchors)} anchors but {len(positives)} positives.")
            return to_device(torch.stack((anchors, positives), 1), inputs.labels.device)  # matched by position
        if inputs.tuples is None and self.form == "pairs":
            return first_pairs(inputs.labels)
        tuples = self.tuples_of(geometry, inputs)
        if tuples is None:
            return positive_pairs(inputs.labels)
        pairs = tuples if isinstance(tuples, Tensor) else tuples[0]
        if not pairs.numel():
            return pairs.new_empty(0, 2)
        if pairs.dim() != 2 or pairs.shape[1] not in (2, 3):
            shape = tuple(pairs.shape)
            raise BadInput(f"{self.who} needs pairs, a tensor of shape (N, 2), but got shape {shape}.")
        return pairs[:, :2]  # for triplets: anchor and positive

    def n_pair_term(
        self, geometry: Geometry, pairs: Tensor | None, inputs: LossInputs, *, soft_target: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The n-pair loss without the norm term, and the number of terms above 0."""
        if pairs is None:
            positive, negative = class_masks(inputs.labels)
            terms = n_pair_terms(geometry.similarity, negative) * positive
            return inputs.weighted(terms).sum() / max(1, len(terms)), (terms.detach() > 0).sum()
        anchor, other = pairs.T
        if self.form == "sampled":
            terms = n_pair_terms(geometry.similarity, class_masks(inputs.labels)[1])[anchor, other]
            return mean(terms, None, "mean", inputs.weights_of(anchor)), (terms.detach() > 0).sum()
        rows, labels = geometry.rows, inputs.labels[anchor]
        sums, counts = [], []
        for first, second in ((anchor, other), (other, anchor)) if self.symmetric else ((anchor, other),):
            terms = pair_batch_terms(rows[first], rows[second], labels, soft_target=soft_target)
            weights = inputs.weights_of(first)
            sums.append((terms if weights is None else terms * weights).sum())
            counts.append((terms.detach() > 0).sum())
        return torch.stack(sums).mean() / max(1, len(pairs)), counts[0]

    def norm_term(self, rows: Tensor, pairs: Tensor | None, inputs: LossInputs) -> dict[str, Tensor]:
        """nu mean_i |x_i|^nu_power; in the form `pairs` the mean of |a|^nu_power + |p|^nu_power over the pairs."""
        if not self.nu:
            return {}
        lengths = inputs.weighted(norms(rows, self.nu_power))
        lengths = lengths if self.form != "pairs" or pairs is None else lengths[pairs]
        return {"norm": self.nu * (lengths.sum() / max(1, len(lengths)))}


@register(
    "n_pair",
    ObjectiveFacts(
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
class NPair(PairForms):
    """N-pair loss. Memory: O(batch * batch).

    `form="sampled"`: one positive per anchor (roth2020's code), mean over the pairs. `"all"`: every positive, divided
    by the batch size. `"pairs"`: one pair of each class, each against the positives of the other pairs (fehervari2019);
    `symmetric` averages with the roles swapped. Explicit tuples are pairs (N, 2), as are the roles {"anchor": rows,
    "positive": rows}; by default `sampled` uses the miner and `pairs` the first two rows of each class. `equal_class`
    sets the treatment of pairs of the same class in the form `pairs`.

    >>> NPair(form="all", nu=0.0)(torch.eye(4), torch.tensor([0, 0, 1, 1]))  # log(1 + 2)
    tensor(1.0986)
    """

    normalize: bool = False
    equal_class: Literal["left_out", "soft_target"] = "left_out"

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        geometry = Geometry(inputs.embeddings, normalize=self.normalize)
        pairs = self.pairs_of(geometry, inputs)
        loss, self.active = self.n_pair_term(geometry, pairs, inputs, soft_target=self.equal_class == "soft_target")
        return {"n_pair": loss, **self.norm_term(geometry.rows, pairs, inputs)}

    def quick(self, inputs: LossInputs) -> Tensor | None:
        if self.form == "pairs":
            return self._quick_pairs(inputs) if inputs.tuples is None and inputs.roles is None else None
        geometry = Geometry(inputs.embeddings.detach(), normalize=self.normalize)
        pairs = self.pairs_of(geometry, inputs)
        loss, slope, self.active = quick_n_pair(geometry.similarity, class_table(inputs.labels), pairs)
        norm, add_slope_ = mean_norm(geometry, self.nu, self.nu_power)
        return closed(self, inputs, geometry, {"n_pair": loss, **norm}, slope, "similarity", add_slope_)

    def _quick_pairs(self, inputs: LossInputs) -> Tensor:
        """One pair of each class: only its rows are used, and no column is of the pair's own class."""
        pairs = first_pairs(inputs.labels)
        listed, count = pairs.T.reshape(-1), max(1, len(pairs))
        geometry = Geometry(inputs.embeddings.detach().index_select(0, listed), normalize=self.normalize)
        anchors, positives = geometry.rows.chunk(2)
        loss, slope, self.active = quick_pair_batch(anchors @ positives.T, symmetric=self.symmetric)
        norm, add_slope_ = mean_norm(geometry, self.nu, self.nu_power, count)

        def slopes(upstream: Tensor) -> list[Tensor]:
            gradient = add_slope_(torch.cat((slope @ positives, slope.T @ anchors)))
            if geometry.lengths is not None:
                gradient = through_unit(gradient, geometry.rows, geometry.lengths)
            return [torch.zeros_like(inputs.embeddings).index_copy_(0, listed, gradient.mul_(upstream))]

        return attached(self.total({"n_pair": loss, **norm}), [inputs.embeddings], slopes)


def first_pairs(labels: Tensor) -> Tensor:
    """The first two rows of each class as a pair (N, 2), in order of first occurrence of the classes.

    >>> first_pairs(torch.tensor([4, 2, 2, 4, 4, 7])).tolist()
    [[0, 3], [1, 2]]
    """
    ordered, order = on_host(labels).sort(stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = (first[:-1] & ~first[1:]).nonzero().squeeze(1)
    pairs = torch.stack((order[starts], order[starts + 1]), 1)
    return to_device(pairs[pairs[:, 0].argsort()], labels.device)


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
    log_sum, slope, total = negatives(similarity, table, 1.0)
    if pairs is None:
        excess = (log_sum - similarity.gather(1, table.others)).masked_fill_(~table.valid, -torch.inf)
        share = excess.sigmoid().mul_(1 / divisor)
        slope.mul_(share.sum(1, keepdim=True).div_(total))
        put_(slope, table, -share)
    else:
        anchor, other = pairs.T
        excess = log_sum[anchor, 0] - similarity[anchor, other]
        share = excess.sigmoid().div_(divisor)
        slope.mul_(torch.zeros_like(total[:, 0]).index_add_(0, anchor, share)[:, None] / total)
        slope.index_put_((anchor, other), -share, accumulate=True)
    terms = log_one_plus_exp(excess)
    return terms.sum() / divisor, slope, (terms > 0).sum()
