"""Multi-similarity: log-sums over the hard pairs of each anchor."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.errors import BadInput
from levelfield.geometry import Geometry
from levelfield.labels import class_table, hide_, put_
from levelfield.miners.multi_similarity import kept_pairs
from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, register
from levelfield.objectives._parts.closed import LOG2_E, closed
from levelfield.objectives._parts.sums import log_one_plus_sum_exp
from levelfield.settings import Positive


def multi_similarity_terms(
    similarity: Tensor, positive: Tensor, negative: Tensor, *, alpha: float, beta: float, base: float
) -> tuple[Tensor, Tensor]:
    """The two log-sums of each anchor (roth2020 eq. 12); `positive` and `negative` are the counts of each pair.

    >>> from levelfield.labels import class_masks
    >>> positive, negative = class_masks(torch.tensor([0, 0, 1]))
    >>> pull, push = multi_similarity_terms(torch.eye(3), positive, negative, alpha=2.0, beta=40.0, base=0.5)
    >>> pull
    tensor([0.6566, 0.6566, 0.0000])
    """
    pull = log_one_plus_sum_exp(_times(-alpha * (similarity - base), positive)) / alpha
    push = log_one_plus_sum_exp(_times(beta * (similarity - base), negative)) / beta
    return pull, push


@register(
    "multi_similarity",
    ObjectiveFacts(
        paper="Wang et al. 2019",
        equation="roth2020 eq. 11-12",
        formula="1/b sum_i [ 1/alpha log(1 + sum_pos e^(-alpha (s - base))) "
        "+ 1/beta log(1 + sum_neg e^(beta (s - base))) ]",
        use="The usual choice when batches have several images per class: it mines and weights the pairs itself.",
        tuples="pairs",
        memory=True,
        sources={
            "alpha": "Wang et al. 2019; roth2020 A.1",
            "beta": "authors' code; roth2020 A.1 (Wang et al. write 50)",
            "base": "authors' code; roth2020 A.1 (Wang et al. write 1)",
            "epsilon": "Wang et al. 2019; roth2020 A.1",
            "reduction": "roth2020 eq. 12, authors' code; 'valid' is roth2020's code",
        },
        search={"alpha": (0.01, 20, "log"), "beta": (10, 200, "log"), "base": (0.2, 1.0, "linear")},
    ),
)
class MultiSimilarity(Objective):
    """Multi-similarity loss with its own mining (`epsilon`; None: all pairs). Memory: O(batch * batch).

    `reduction="batch"` divides by the batch size, `"valid"` by the number of anchors that keep a pair. Explicit
    `tuples` are two lists of pairs, positive (p, 2) and negative (q, 2).

    >>> MultiSimilarity()(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    tensor(0.6566)
    """

    alpha: Positive = 2.0
    beta: Positive = 40.0
    base: float = 0.5
    epsilon: float | None = 0.1
    normalize: bool = True
    reduction: Literal["batch", "valid"] = "batch"

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        geometry = inputs.geometry(normalize=self.normalize)
        positive, negative = self._counted(geometry, inputs)
        pull, push = multi_similarity_terms(
            geometry.similarity, positive, negative, alpha=self.alpha, beta=self.beta, base=self.base
        )
        valid = (positive > 0).any(1) | (negative > 0).any(1)
        self.active = valid.sum()
        divisor = max(1, len(pull)) if self.reduction == "batch" else self.active.clamp_min(1)
        return {"positive": inputs.weighted(pull).sum() / divisor, "negative": inputs.weighted(push).sum() / divisor}

    def quick(self, inputs: LossInputs) -> Tensor | None:
        if inputs.tuples is not None:
            return None
        geometry = Geometry(inputs.embeddings.detach(), normalize=self.normalize)
        table, n = class_table(inputs.labels), len(inputs.labels)
        near = geometry.similarity.gather(1, table.others)
        negatives = hide_(geometry.similarity.clone(), table, -torch.inf)
        nearest = negatives.amax(1, keepdim=True)
        kept = table.valid
        if self.epsilon is not None:
            # keep positives less similar than the nearest negative, and negatives more similar than the farthest
            # positive
            farthest = torch.where(kept, near, torch.inf).amin(1, keepdim=True)
            # (or NaN, which must show in the loss)
            kept = kept & ~(near >= nearest + self.epsilon)
            limit = farthest - self.epsilon
            negatives = torch.where(negatives <= limit, -torch.inf, negatives)
            nearest = nearest.masked_fill(nearest <= limit, -torch.inf)
        valid = kept.any(1, keepdim=True) | (nearest > -torch.inf)
        self.active = valid.sum()
        divisor = n if self.reduction == "batch" else self.active.clamp_min(1)
        logits = (near - self.base).mul_(-self.alpha).masked_fill_(~kept, -torch.inf)
        pull, of_pull = _log_one_plus_sum_exp_(logits, logits.amax(1, keepdim=True))
        push, of_push = _log_one_plus_sum_exp_(
            negatives.sub_(self.base).mul_(self.beta), (nearest - self.base) * self.beta
        )
        terms = {"positive": pull.sum() / self.alpha / divisor, "negative": push.sum() / self.beta / divisor}
        slope = put_(of_push.div_(divisor), table, of_pull / -divisor)
        return closed(self, inputs, geometry, terms, slope, "similarity")

    def _counted(self, geometry: Geometry, inputs: LossInputs) -> tuple[Tensor, Tensor]:
        if inputs.tuples is not None:
            if isinstance(inputs.tuples, Tensor):
                raise BadInput("Objective 'multi_similarity' takes two lists of pairs as tuples: positive, negative.")
            none = torch.zeros_like(geometry.similarity)
            first, second = (none.index_put(tuple(p.T), none.new_ones(()), accumulate=True) for p in inputs.tuples)
            return first, second  # how often each pair is listed
        positive, negative = inputs.class_masks()
        if self.epsilon is None:
            return positive, negative
        return kept_pairs(geometry.similarity.detach(), positive, negative, epsilon=self.epsilon)


def _log_one_plus_sum_exp_(logits: Tensor, largest: Tensor) -> tuple[Tensor, Tensor]:
    """log(1 + sum_j exp(logits_ij)) of each row (n, 1), and its slope, written over the logits; -inf does not count.

    largest: (n, 1), the rows' largest logits. Base 2, since natural exponentials of very negative numbers are slow.
    """
    top = largest.clamp_min(0)
    powers = logits.sub_(top).mul_(LOG2_E).exp2_()
    total = powers.sum(1, keepdim=True).add_(top.neg().exp_())
    return total.log().add_(top), powers.div_(total)


def _times(logits: Tensor, counted: Tensor) -> Tensor:
    """Logits whose exponentials are multiplied by `counted` (a mask or counts)."""
    if counted.dtype == torch.bool:
        return logits.masked_fill(~counted, -torch.inf)
    return logits + counted.log()
