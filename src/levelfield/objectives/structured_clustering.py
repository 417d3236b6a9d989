"""Structured clustering: the true clustering must beat the most violating one by a margin (its disagreement).

S is a list of medoids. F(S) = -(sum of distances to the nearest medoid), Delta = 1 - NMI(clusters of S, classes). A
sample belongs to its nearest medoid, to the earlier one in S if two are equally near; a medoid belongs to itself.
"""

from __future__ import annotations

import math
from dataclasses import field
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from levelfield.errors import BadInput
from levelfield.geometry import Geometry
from levelfield.labels import on_host, to_device
from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, register
from levelfield.settings import Natural, NotNegative

Inference = Literal["exact", "greedy", "greedy_pam"]
Normalisation = Literal["geometric", "arithmetic"]
TIE = 1e-6  # scores this close to the best count as ties, so that rounding does not decide
ROUNDING = 1e-9  # entropies and Delta below this are 0: the next possible values are much larger
MOST_SUBSETS = 1_000_000


@register(
    "structured_clustering",
    ObjectiveFacts(
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
        labels, geometry = inputs.labels, Geometry(inputs.embeddings, normalize=self.normalize)
        if not len(labels):
            self.medoids, self.active = labels, labels.sum()
            return {"clustering": inputs.embeddings.sum()}
        exact = Geometry(inputs.embeddings.detach().cpu().double(), normalize=self.normalize).distance.numpy()
        classes = np.unique(on_host(labels).numpy(), return_inverse=True)[1]
        clusters = most_violating(
            exact, classes, gamma=self.gamma, inference=self.inference, pam_iterations=self.pam_iterations, nmi=self.nmi
        )
        self.medoids, violating, true = (
            to_device(torch.from_numpy(indices), labels.device)
            for indices in (clusters.medoids, clusters.medoids[clusters.owner], class_medoids(exact, classes))
        )
        samples = torch.arange(len(labels), device=labels.device)
        to_true, to_violating = (geometry.distance_of(samples, medoids) for medoids in (true, violating))
        gap = (to_true - to_violating).sum() + self.gamma * clusters.delta
        self.active = (gap.detach() > 0).long()
        return {"clustering": gap.relu()}


def class_medoids(distance: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The medoid of each sample's class (b,), the first of equally good ones. distance: (b, b).

    >>> positions = np.array([0.0, 1.0, 10.0, 11.0])
    >>> class_medoids(abs(positions[:, None] - positions), np.array([0, 1, 0, 1]))
    array([0, 1, 0, 1])
    """
    same = classes[:, None] == classes
    within = np.where(same, (distance * same).sum(0), np.inf)  # (i, j): cost if j is the medoid of i's class
    return np.asarray((within <= within.min(1, keepdims=True) + TIE).argmax(1))


class Clustering(NamedTuple):
    """Medoids (K,) in order of choice, the index in that list of each sample's medoid (b,), and Delta."""

    medoids: np.ndarray
    owner: np.ndarray
    delta: float


def most_violating(
    distance: np.ndarray,
    classes: np.ndarray,
    *,
    gamma: float = 1.0,
    inference: Inference = "greedy_pam",
    pam_iterations: int = 5,
    nmi: Normalisation = "geometric",
) -> Clustering:
    """The clustering with as many medoids as classes that maximises F + gamma Delta, exactly or approximately.

    distance: (b, b) with zeros on the diagonal. classes: (b,) integers 0..K-1, all of them present. Memory: O(b * b).

    >>> positions = np.array([0.0, 1.0, 10.0, 11.0])
    >>> most_violating(abs(positions[:, None] - positions), np.array([0, 1, 0, 1]), inference="greedy")
    Clustering(medoids=array([1, 2]), owner=array([0, 0, 1, 1]), delta=1.0)
    """
    batch = _Batch(distance, classes, gamma, nmi)
    if inference == "exact":
        medoids = _exact(batch)
    else:
        medoids = _greedy(batch)
        if inference == "greedy_pam":
            medoids = _improved(batch, medoids, pam_iterations)
    _, owner = batch.nearest(medoids)
    delta = batch.delta(batch.sum_of_logs(owner * batch.count + classes), batch.sum_of_logs(owner))
    return Clustering(np.array(medoids, dtype=np.int64), owner, float(delta))


class _Batch:
    """Scores many clusterings at once. Entropies come from a table of v log v, because counts are integers."""

    def __init__(self, distance: np.ndarray, classes: np.ndarray, gamma: float, nmi: Normalisation) -> None:
        self.distance, self.classes, self.gamma, self.nmi = distance, classes, gamma, nmi
        self.samples, self.count = len(classes), int(classes.max(initial=-1)) + 1
        counts = np.arange(self.samples + 1)
        self.table = counts * np.log(np.maximum(counts, 1))
        self.class_entropy = self._entropy(self.sum_of_logs(classes))

    def nearest(self, medoids: list[int], without: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Distance to the nearest medoid, and its index in the list; `without` is an index to exclude."""
        if not medoids:
            return np.full(self.samples, np.inf), np.zeros(self.samples, dtype=np.int64)
        among = self.distance[medoids]
        if without is not None:
            among[without] = np.inf
        owner = among.argmin(0)
        positions = [position for position in range(len(medoids)) if position != without]
        owner[[medoids[position] for position in positions]] = positions
        return among[owner, np.arange(self.samples)], owner

    def with_one_more(
        self, candidates: np.ndarray, position: int, medoids: list[int], without: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """F and Delta for each candidate inserted at `position` of the list, with `without` removed.

        Only the samples that move to the candidate change a count; with many medoids these are few.
        """
        near, owner = self.nearest(medoids, without)
        to = self.distance[candidates]
        moves = (to < near) | ((to == near) & (position < owner))
        moves[:, [medoid for k, medoid in enumerate(medoids) if k != without]] = False
        moves[np.arange(len(candidates)), candidates] = True
        mover, sample = moves.nonzero()

        def moved(groups: np.ndarray, width: int) -> np.ndarray:
            """Number of samples of each group that move to each candidate (candidates, groups)."""
            counts = np.bincount(mover * width + groups[sample], minlength=len(candidates) * width)
            return counts.reshape(len(candidates), width)

        keys = owner * self.count + self.classes
        cells = ((np.bincount(keys) > 0).astype(np.int64).cumsum() - 1)[keys]  # index of the non-empty cells
        sizes = np.bincount(cells)
        joint = self.table[sizes - moved(cells, len(sizes))].sum(1)
        joint += self.table[moved(self.classes, self.count)].sum(1)
        left = np.bincount(owner, minlength=self.count) - moved(owner, self.count)
        clusters = self.table[left].sum(1) + self.table[moves.sum(1)]
        return -np.where(moves, to, near).sum(1), self.delta(joint, clusters)

    def sum_of_logs(self, groups: np.ndarray) -> np.ndarray:
        entropy: np.ndarray = self.table[np.bincount(groups)].sum()
        return entropy

    def _entropy(self, sum_of_logs: np.ndarray) -> np.ndarray:
        entropy = np.log(self.samples) - sum_of_logs / self.samples
        return np.where(entropy < ROUNDING, 0.0, entropy)

    def delta(self, joint: np.ndarray, clusters: np.ndarray) -> np.ndarray:
        """1 - NMI; NMI is 1 if both partitions are one cluster, 0 if only one of them is."""
        entropy, of_classes = self._entropy(clusters), self.class_entropy
        shared = entropy + of_classes - self._entropy(joint)
        scale = np.sqrt(entropy * of_classes) if self.nmi == "geometric" else (entropy + of_classes) / 2
        single = (entropy == 0) | (of_classes == 0)
        delta = np.where(single, entropy != of_classes, 1 - shared / np.where(single, 1.0, scale))
        return np.where(delta < ROUNDING, 0.0, delta)


def _first_best(scores: np.ndarray) -> int:
    return int((scores >= scores.max() - TIE).argmax())


def _greedy(batch: _Batch) -> list[int]:
    medoids: list[int] = []
    for position in range(batch.count):
        facility, delta = batch.with_one_more(np.arange(batch.samples), position, medoids)
        scores = facility + batch.gamma * delta
        scores[medoids] = -np.inf
        medoids.append(_first_best(scores))
    return medoids


def _improved(batch: _Batch, medoids: list[int], sweeps: int) -> list[int]:
    """Swap each medoid for a better member of its cluster; membership is fixed at the start of a sweep."""
    medoids = list(medoids)
    for _ in range(sweeps):
        before, (_, fixed) = list(medoids), batch.nearest(medoids)
        for position in range(batch.count):
            (members,) = (fixed == position).nonzero()
            if len(members) > 1:
                _, delta = batch.with_one_more(members, position, medoids, without=position)
                within = batch.distance[np.ix_(members, members)].sum(1)
                medoids[position] = int(members[_first_best(batch.gamma * delta - within)])
        if medoids == before:  # converged
            break
    return medoids


def _exact(batch: _Batch) -> list[int]:
    """All subsets in lexicographic order; subsets that differ only in the last medoid are scored together."""
    subsets = math.comb(batch.samples, batch.count)
    if subsets > MOST_SUBSETS:
        raise BadInput(
            f"Exact inference would try {subsets} sets of {batch.count} medoids among {batch.samples} samples; "
            f"the limit is {MOST_SUBSETS}. Inference 'greedy_pam' has no limit."
        )
    subsets_of_medoids, scores = [], []
    for first in combinations(range(batch.samples), batch.count - 1):
        last = np.arange(first[-1] + 1 if first else 0, batch.samples)
        if len(last):
            facility, delta = batch.with_one_more(last, len(first), list(first))
            subsets_of_medoids += [[*first, int(medoid)] for medoid in last]
            scores.append(facility + batch.gamma * delta)
    return subsets_of_medoids[_first_best(np.concatenate(scores))]
