"""Agreement of clusters with classes: NMI, AMI, ARI and the F1 of pairs, from the contingency table."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from levelfield.evaluation.inputs import Array
from levelfield.evaluation.metrics.registry import MetricFacts, register

_CELLS = 2048  # intersection sizes processed at a time, for all clusters: some megabytes


@dataclass(frozen=True)
class Contingency:
    """Sizes of the classes, the clusters, and their non-empty intersections (each with its two sizes)."""

    classes: Array
    clusters: Array
    cells: Array
    cell_class: Array
    cell_cluster: Array

    @property
    def samples(self) -> int:
        return int(self.classes.sum())

    @property
    def trivial(self) -> bool:
        """Whether there is one class and one cluster, or every sample is alone in both: perfect agreement."""
        return len(self.classes) == len(self.clusters) == len(self.cells) in (1, self.samples)


def tabulate(labels: Array, clusters: Array) -> Contingency:
    """Count a clustering. Labels and cluster ids (n,) are any integers (or text)."""
    _, first, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    _, second, others = np.unique(clusters, return_inverse=True, return_counts=True)
    pairs, cells = np.unique(first.astype(np.int64) * len(others) + second, return_counts=True)
    return Contingency(sizes, others, cells, sizes[pairs // len(others)], others[pairs % len(others)])


@register(
    "nmi",
    MetricFacts(
        "clustering",
        "mutual information between classes and clusters, divided by the mean of their "
        "entropies (k-means, as many clusters as classes)",
        ("arithmetic", "geometric", "min", "max"),
    ),
)
def nmi(table: Contingency, *, form: str = "arithmetic") -> float:
    first, second = _entropy(table.classes), _entropy(table.clusters)
    if table.trivial:
        return 1.0
    if first == 0 or second == 0:
        return 0.0
    mean = {
        "arithmetic": (first + second) / 2,
        "geometric": float(np.sqrt(first * second)),
        "min": min(first, second),
        "max": max(first, second),
    }[form]
    return mutual_information(table) / mean


@register("ami", MetricFacts("clustering", "mutual information above chance, divided by its maximum above chance"))
def ami(table: Contingency, *, form: None = None) -> float:
    if table.trivial:
        return 1.0
    chance = expected_mutual_information(table)
    gap = (_entropy(table.classes) + _entropy(table.clusters)) / 2 - chance
    # If the maximum equals the chance level, only rounding is left; its sign must not matter.
    smallest = np.finfo(np.float64).eps
    return (mutual_information(table) - chance) / (min(gap, -smallest) if gap < 0 else max(gap, smallest))


@register(
    "ari", MetricFacts("clustering", "share of sample pairs on which classes and clusters agree, corrected for chance")
)
def ari(table: Contingency, *, form: None = None) -> float:
    both, in_class, in_cluster = _pairs(table.cells), _pairs(table.classes), _pairs(table.clusters)
    split, joined = in_class - both, in_cluster - both
    if split == joined == 0:
        return 1.0
    apart = table.samples * (table.samples - 1) // 2 - in_class - joined
    return 2 * (both * apart - split * joined) / (in_class * (split + apart) + in_cluster * (joined + apart))


@register(
    "f1",
    MetricFacts("clustering", "harmonic mean of pair precision and pair recall, over pairs of samples in one cluster"),
)
def f1(table: Contingency, *, form: None = None) -> float:
    all_pairs = _pairs(table.classes) + _pairs(table.clusters)
    return 2 * _pairs(table.cells) / all_pairs if all_pairs else 1.0


def mutual_information(table: Contingency) -> float:
    surprise = np.log(table.cells) + np.log(table.samples) - np.log(table.cell_class) - np.log(table.cell_cluster)
    return max(math.fsum(table.cells / table.samples * surprise), 0.0)  # exact: independent of the names of classes


def expected_mutual_information(table: Contingency) -> float:
    """Mean over all clusterings of these sizes (hypergeometric): a sum over pairs of distinct sizes, not over cells."""
    from scipy.stats import hypergeom

    total, result = table.samples, 0.0
    sizes, often = np.unique(table.clusters, return_counts=True)
    for size, times in zip(*np.unique(table.classes, return_counts=True), strict=True):
        for low in range(1, min(int(size), int(sizes[-1])) + 1, _CELLS):
            both = np.arange(low, min(low + _CELLS, int(size) + 1))[None, :]
            first = np.searchsorted(sizes, low)
            other = sizes[first:, None]
            information = both / total * (np.log(total) + np.log(both) - np.log(size) - np.log(other))
            terms = information * hypergeom.pmf(both, total, size, other)
            result += times * float(terms.sum(axis=1) @ often[first:])
    return result


def _entropy(sizes: Array) -> float:
    if len(sizes) == 1:
        return 0.0
    share = sizes / sizes.sum()
    return -math.fsum(share * np.log(share))


def _pairs(sizes: Array) -> int:
    return int((sizes.astype(np.int64) * (sizes.astype(np.int64) - 1) // 2).sum())
