from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest
import torch

from levelfield.errors import BadInput, BadSpecification
from levelfield.objectives.structured_clustering import StructuredClustering, class_medoids, most_violating
from levelfield.randomness import stream

INFERENCES = ("exact", "greedy", "greedy_pam")
Matrix = list[list[float]]


def entropy(partition: list[int]) -> float:
    return -sum(count / len(partition) * math.log(count / len(partition)) for count in Counter(partition).values())


def nmi(first: list[int], second: list[int]) -> float:
    h1, h2 = entropy(first), entropy(second)
    if len(set(first)) == 1 or len(set(second)) == 1:
        return float(len(set(first)) == len(set(second)))
    both = entropy([a * 1000 + b for a, b in zip(first, second, strict=True)])
    return (h1 + h2 - both) / math.sqrt(h1 * h2)


def owners(d: Matrix, medoids: list[int]) -> list[int]:
    found = []
    for i in range(len(d)):
        nearest = min(range(len(medoids)), key=lambda k: (d[i][medoids[k]], k))
        found.append(medoids.index(i) if i in medoids else nearest)
    return found


def score(d: Matrix, labels: list[int], gamma: float, medoids: list[int]) -> float:
    own = owners(d, medoids)
    return -sum(d[i][medoids[k]] for i, k in enumerate(own)) + gamma * (1 - nmi(own, labels))


def first_best(scores: list[float]) -> int:
    return next(k for k, value in enumerate(scores) if value >= max(scores) - 1e-6)


def medoids_by_loop(d: Matrix, labels: list[int], gamma: float, inference: str, sweeps: int = 5) -> list[int]:
    """Set by set, candidate by candidate, as the definition says."""
    n, k = len(d), len(set(labels))
    if inference == "exact":
        sets = [list(chosen) for chosen in combinations(range(n), k)]
        return sets[first_best([score(d, labels, gamma, chosen) for chosen in sets])]
    medoids: list[int] = []
    for _ in range(k):
        free = [i for i in range(n) if i not in medoids]
        medoids.append(free[first_best([score(d, labels, gamma, [*medoids, i]) for i in free])])
    for _ in range(sweeps if inference == "greedy_pam" else 0):
        fixed = owners(d, medoids)
        for place in range(k):
            members = [i for i in range(n) if fixed[i] == place]
            scores = []
            for c in members:
                swapped = [*medoids[:place], c, *medoids[place + 1 :]]
                scores.append(-sum(d[i][c] for i in members) + gamma * (1 - nmi(owners(d, swapped), labels)))
            medoids[place] = members[first_best(scores)]
    return medoids


@pytest.mark.parametrize("number", range(60))
def test_medoids_are_the_slow_loop_on_random_grids(number: int) -> None:
    """Points of a small grid: coincident ones and equal distances are frequent, which is where searches differ."""
    drawn = np.random.default_rng(number)
    n = int(drawn.integers(2, 10))
    points = drawn.integers(0, 3, size=(n, 2)).astype(float)
    labels = drawn.integers(0, max(2, n // 2), size=n)
    d = np.abs(points[:, None] - points).sum(2)  # whole numbers, so that ties are exact
    classes = np.unique(labels, return_inverse=True)[1]
    for inference, gamma in product(INFERENCES, (0.5, 3.0)):
        found = most_violating(d, classes, gamma=gamma, inference=inference)
        medoids = medoids_by_loop(d.tolist(), classes.tolist(), gamma, inference)
        assert found.medoids.tolist() == medoids
        assert found.owner.tolist() == owners(d.tolist(), medoids)
        assert found.delta == pytest.approx(1 - nmi(found.owner.tolist(), classes.tolist()), abs=1e-9)


def test_gradient_goes_through_the_distances_to_the_chosen_medoids_alone() -> None:
    rows = torch.tensor([[0.0], [1.0], [10.0], [12.0], [10.5]], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 1, 0, 1, 1])
    loss = StructuredClustering(normalize=False)
    (slopes,) = torch.autograd.grad(loss(rows, labels), rows)
    distance = (rows - rows.T).abs().detach().numpy()
    violating = most_violating(distance, labels.numpy())
    expected = torch.zeros(5, dtype=torch.float64)
    for medoids, sign in ((class_medoids(distance, labels.numpy()), 1), (violating.medoids[violating.owner], -1)):
        for sample, medoid in enumerate(medoids.tolist()):
            slope = sign * torch.sign(rows.detach()[sample, 0] - rows.detach()[medoid, 0])
            expected[sample] += slope
            expected[medoid] -= slope
    torch.testing.assert_close(slopes[:, 0], expected)


def test_a_class_of_two_pulls_once() -> None:
    """Both members are equally good medoids; taking both would double the gradient."""
    rows = torch.tensor([[0.0], [4.0], [1.0], [5.0]], requires_grad=True)
    loss = StructuredClustering(normalize=False)
    value = loss(rows, torch.tensor([0, 0, 1, 1]))
    assert value.item() == pytest.approx(4 + 4 - 1 - 1 + 1)
    assert torch.autograd.grad(value, rows)[0][:, 0].tolist() == [-1 + 1, 1 + 1, -1 - 1, 1 - 1]


def test_the_true_clustering_costs_nothing() -> None:
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]], requires_grad=True)
    value = StructuredClustering(gamma=0.1)(rows, torch.tensor([0, 0, 1, 1]))
    assert value.item() == 0
    assert not torch.autograd.grad(value, rows)[0].any()


def test_exact_inference_refuses_what_would_take_hours() -> None:
    with pytest.raises(BadInput, match="greedy_pam"):
        StructuredClustering(inference="exact")(torch.randn(60, 4, generator=stream(0, "x")), torch.arange(60) // 4)


def test_half_a_sweep_is_refused() -> None:
    with pytest.raises(BadSpecification, match="integer"):
        StructuredClustering(pam_iterations=1.5)  # type: ignore[arg-type]
