"""Structured clustering: the true clustering must beat the most violating one by a margin (its disagreement)."""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import on_host, to_device
from levelfield.objectives._contract import Facts, LossInputs, Objective, register
from levelfield.objectives._parts.medoids import TIE, Inference, Normalisation, most_violating
from levelfield.settings import Natural, NotNegative


class Choice(NamedTuple):
    """Constants of the loss: `medoids` (K,) in order of choice, and the medoid of each sample (b,).

    violating: the sample's medoid in the most violating clustering; true: the medoid of its class.
    """

    medoids: Tensor
    violating: Tensor
    true: Tensor
    delta: float


def choose_medoids(
    distance: Tensor,
    labels: Tensor,
    *,
    gamma: float = 1.0,
    inference: Inference = "greedy_pam",
    pam_iterations: int = 5,
    nmi: Normalisation = "geometric",
) -> Choice:
    """The most violating clustering and the medoids of the classes; ties go to the first. distance: (b, b).

    >>> positions = torch.tensor([0.0, 1.0, 10.0, 11.0])
    >>> choose_medoids((positions[:, None] - positions).abs(), torch.tensor([7, 9, 7, 9]))
    Choice(medoids=tensor([0, 2]), violating=tensor([0, 0, 2, 2]), true=tensor([0, 1, 0, 1]), delta=1.0)
    """
    if not len(labels):
        return Choice(labels, labels, labels, 0.0)
    apart = distance.detach().cpu().double().numpy()
    classes = np.unique(on_host(labels).numpy(), return_inverse=True)[1]
    medoids, owner, delta = most_violating(
        apart, classes, gamma=gamma, inference=inference, pam_iterations=pam_iterations, nmi=nmi
    )
    same = classes[:, None] == classes
    within = np.where(same, (apart * same).sum(0), np.inf)  # (i, j): cost if j is the medoid of i's class
    true = (within <= within.min(1, keepdims=True) + TIE).argmax(1)
    chosen, violating, own = (
        to_device(torch.from_numpy(indices), labels.device) for indices in (medoids, medoids[owner], true)
    )
    return Choice(chosen, violating, own, delta)


@register(
    "structured_clustering",
    Facts(
        paper="Oh Song et al. 2017",
        equation="fehervari2019 eq. 10-12",
        formula="[max_S (F(S) + gamma (1 - NMI(S, y))) - F(classes)]+, F(S) = -sum_i min_{j in S} d_ij",
        use="To optimise the clustering as a whole, with few classes and many images of each in a batch.",
        batch="few classes, 5 each",
        sources={
            "gamma": "fehervari2019's code",
            "inference": "Oh Song et al. 2017; fehervari2019's code",
            "pam_iterations": "fehervari2019's code",
            "nmi": "fehervari2019's code",
            "normalize": "fehervari2019 table 1",
        },
        search={"gamma": (0.1, 10, "log")},
        weights=False,
    ),
)
class StructuredClustering(Objective):
    """Structured clustering loss, a sum over the batch. Medoids and NMI are constants; `medoids`: those of the last
    call.

    Medoids are computed in float64 on the CPU: `greedy` adds them one by one, `greedy_pam` then swaps each for a better
    member of its cluster, `exact` tries all sets (only for tiny batches). Cost of a greedy search: classes * batch^2;
    too many classes make training unstable (fehervari2019). Memory: O(batch * batch).

    >>> loss = StructuredClustering()
    >>> loss(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0, 1, 1]))
    tensor(3.8284)
    """

    gamma: NotNegative = 1.0
    inference: Inference = "greedy_pam"
    pam_iterations: Natural = 5
    nmi: Normalisation = "geometric"
    normalize: bool = True
    medoids: Tensor | None = field(init=False, default=None)

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        exact = Geometry(inputs.embeddings.detach().cpu().double(), normalize=self.normalize)
        choice = choose_medoids(
            exact.distance,
            inputs.labels,
            gamma=self.gamma,
            inference=self.inference,
            pam_iterations=self.pam_iterations,
            nmi=self.nmi,
        )
        self.medoids = choice.medoids
        samples = torch.arange(len(choice.true), device=choice.true.device)
        geometry = Geometry(inputs.embeddings, normalize=self.normalize)
        to_true, to_violating = (geometry.distance_of(samples, medoids) for medoids in (choice.true, choice.violating))
        gap = (to_true - to_violating).sum() + self.gamma * choice.delta
        self.active = (gap.detach() > 0).long()
        return {"clustering": gap.relu()}
