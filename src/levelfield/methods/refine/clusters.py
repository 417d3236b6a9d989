"""Clusters of test embeddings as substitutes for their unknown classes (seidenschwarz2021 C.1)."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np

from levelfield import evaluation
from levelfield.evaluation.inputs import Array
from levelfield.settings import Count, Positive, checked

Noise = Literal["together", "alone"]
_CLUSTERS = 900  # seidenschwarz2021 table 7


@checked
def kmeans(rows: Array, *, clusters: Count = _CLUSTERS, seed: int = 0) -> Array:
    """The k-means of the evaluation."""
    return evaluation.kmeans(rows, min(clusters, len(rows)), seed=seed)


@checked
def ward(rows: Array, *, clusters: Count = _CLUSTERS) -> Array:
    """Agglomerative clustering by Ward's criterion. Memory: the distances of all pairs; deterministic."""
    from sklearn.cluster import AgglomerativeClustering

    return np.asarray(AgglomerativeClustering(min(clusters, len(rows)), linkage="ward").fit_predict(rows))


@checked
def spectral(rows: Array, *, clusters: Count = _CLUSTERS, neighbours: Count = 10, seed: int = 0) -> Array:
    """Spectral clustering on the nearest-neighbour graph, because the full graph would not fit into memory."""
    from sklearn.cluster import SpectralClustering

    near, count = min(neighbours, len(rows)), min(clusters, len(rows))
    if count == len(rows):  # one cluster per row, which the eigensolver does not support
        return np.arange(count)
    how = {"affinity": "nearest_neighbors", "assign_labels": "cluster_qr", "random_state": seed}
    clustering = SpectralClustering(count, n_neighbors=near, **how)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Graph is not fully connected")  # its components are clusters too
        labels: Array = clustering.fit_predict(rows)
    return labels


@checked
def birch(rows: Array, *, clusters: Count = _CLUSTERS, threshold: Positive = 0.5) -> Array:
    """BIRCH; with a larger `threshold` (default: scikit-learn's) there may be fewer clusters than requested."""
    from sklearn.cluster import Birch

    clustering = Birch(n_clusters=min(clusters, len(rows)), threshold=threshold)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Number of subclusters found")  # see the docstring
        labels: Array = clustering.fit_predict(rows)
    return labels


@checked
def dbscan(rows: Array, *, eps: Positive = 0.9, min_samples: Count = 5, noise: Noise = "together") -> Array:
    """DBSCAN. `noise`: rows without a cluster form one cluster, as in the released code, or one each."""
    from sklearn.cluster import DBSCAN

    return without_noise(DBSCAN(eps=eps, min_samples=min_samples).fit_predict(rows), noise)


@checked
def optics(rows: Array, *, eps: Positive = 0.9, min_samples: Count = 5, noise: Noise = "together") -> Array:
    """OPTICS, cut at `eps`. `noise`: as for `dbscan`."""
    from sklearn.cluster import OPTICS

    least = min(max(2, min_samples), len(rows))
    clustering = OPTICS(min_samples=least, max_eps=eps, eps=eps, cluster_method="dbscan")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="All reachability values are inf")  # all rows are noise
        return without_noise(clustering.fit_predict(rows), noise)


def without_noise(labels: Array, noise: Noise = "together") -> Array:
    """Replace label -1 by one cluster, or by one cluster per row."""
    lost = labels < 0
    new = labels.max() + 1 + (np.cumsum(lost) - 1 if noise == "alone" else 0)
    return np.where(lost, new, labels)
