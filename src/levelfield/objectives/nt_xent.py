"""NT-Xent: each positive against the negatives of its anchor, at a temperature."""

from __future__ import annotations

from torch import Tensor

from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, register
from levelfield.objectives._parts.sums import mean
from levelfield.objectives.n_pair import n_pair_terms
from levelfield.settings import Positive


@register(
    "nt_xent",
    ObjectiveFacts(
        paper="Sohn 2016; Chen et al. 2020 (SimCLR), with labels as in PML",
        equation="Chen et al. 2020 eq. 1",
        formula="mean over (a, p) of log(1 + sum_n e^((s_an - s_ap) / temperature))",
        use="Few images per class and large batches, as in self-supervised training; one temperature, no miner.",
        memory=True,
        sources={"temperature": "PML 2.9; Wu et al. 2018", "normalize": "Chen et al. 2020"},
        search={"temperature": (0.0002, 0.5, "log")},
    ),
)
class NTXent(Objective):
    """NT-Xent over all ordered positive pairs of the batch. Memory: O(batch * batch).

    The denominator contains this positive and the anchor's negatives, not the other positives.

    >>> import torch
    >>> NTXent(temperature=1.0)(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    tensor(1.0986)
    """

    temperature: Positive = 0.07
    normalize: bool = True

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        geometry = inputs.geometry(normalize=self.normalize)
        positive, negative = inputs.class_masks()
        terms = n_pair_terms(geometry.similarity / self.temperature, negative)
        self.active = ((terms.detach() > 0) & positive).sum()
        return {"nt_xent": mean(inputs.weighted(terms), positive, "mean")}
