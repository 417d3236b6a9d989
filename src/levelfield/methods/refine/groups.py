"""Groups of stored rows: chunks of labels or of clusters, and reciprocal neighbours.

Clusters are substitutes for unknown classes (seidenschwarz2021 C.1); reciprocal neighbours: C.3, Zhong et al. 2017.
"""

from __future__ import annotations

import warnings
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from levelfield import evaluation
from levelfield.errors import BadInput
from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.search.dense import largest, similarity_blocks
from levelfield.randomness import numpy_stream
from levelfield.settings import Count, NotNegative, Positive, checked

Noise = Literal["together", "alone"]
_CLUSTERS = 900  # seidenschwarz2021 table 7


class Groups(NamedTuple):
    """Rows that exchange messages `[groups, size]`, and the columns whose refined rows are kept.

    Of reciprocal groups also the number of reciprocal neighbours of each row, and that of its expanded list.
    """

    members: Array
    kept: tuple[int, ...]
    reciprocal_size: Array | None = None
    expanded_size: Array | None = None


def _searched(rows: Array, gallery: Array | None = None) -> Inputs:
    """`rows` as queries for the search of the evaluation, in a gallery or among themselves."""
    columns = rows if gallery is None else gallery
    common = np.promote_types(rows.dtype, columns.dtype)
    rows, columns = (array.astype(common, copy=False) for array in (rows, columns))
    ids = np.arange(len(rows)) if gallery is None else np.full(len(rows), -1)
    codes, others = np.zeros(len(rows), np.int64), np.zeros(len(columns), np.int64)
    size, cpu = 8 * common.itemsize, torch.device("cpu")
    return Inputs(rows, codes, columns, others, ids, np.zeros(1), gallery is None, size, cpu)


def nearest_lists(rows: Array, k: int, gallery: Array | None = None) -> Array:
    """`[n, k]`: the k nearest rows of the gallery, or of the other rows; Euclidean, ties to the first."""
    lists = np.empty((len(rows), k), np.int64)
    inputs = _searched(rows, gallery)
    for queries, values in similarity_blocks(inputs, distance="euclidean") if k else ():
        if gallery is None:
            values[torch.arange(len(queries)), torch.from_numpy(queries)] = -torch.inf
        lists[queries] = largest(values, k).numpy()
    return lists


def chunks_of(labels: Array, size: int, *, seed: int) -> Array:
    """Chunks of `size` rows of each label, as in training (2.4): shuffled, and filled by drawing some rows again."""
    drawn = numpy_stream(seed, "refine", "chunks")
    chunks = []
    for label in np.unique(labels):
        members = drawn.permutation(np.flatnonzero(labels == label))
        again = drawn.choice(members, -len(members) % size)
        chunks.append(np.concatenate((members, again)).reshape(-1, size))
    return np.concatenate(chunks)


def dealt(chunks: Array, at_once: int, *, seed: int) -> Array:
    """Groups of `at_once` chunks in random order; the last group is filled with the first chunks."""
    order = numpy_stream(seed, "refine", "groups").permutation(len(chunks))
    order = np.resize(order, len(order) + -len(order) % at_once)
    return chunks[order].reshape(-1, at_once * chunks.shape[1])


_ENTRIES = 2**22  # comparisons at a time


@checked
def nearest_groups(rows: Array, *, chunks: Count = 6, size: Count = 9, seed: int = 0) -> Groups:
    """C.2: a chunk is a row with its `size` - 1 nearest rows; `chunks` random chunks form a group, and the first row of
    each chunk is kept. The paper gives no numbers; the defaults are those of training on CUB.

    >>> nearest_groups(np.array([[0.0], [1.0], [5.0], [7.0]]), chunks=2, size=2).members.shape
    (2, 4)
    """
    if size > len(rows):
        raise BadInput(f"The chunk size is {size}, but there are {len(rows)} rows.")
    return Groups(dealt(_with_itself(rows, size - 1), chunks, seed=seed), tuple(range(0, chunks * size, size)))


@checked
def cluster_groups(labels: Array, *, chunks: Count = 6, size: Count = 9, seed: int = 0) -> Groups:
    """C.1: clusters replace classes, and groups are formed like training batches, from `chunks` of `size` rows of one
    cluster each. All rows are kept at their first occurrence.

    >>> cluster_groups(np.array([0, 0, 1, 1]), chunks=2, size=2).members.shape
    (1, 4)
    """
    return Groups(dealt(chunks_of(labels, size, seed=seed), chunks, seed=seed), tuple(range(chunks * size)))


@checked
def reciprocal_groups(
    rows: Array,
    gallery: Array | None = None,
    *,
    k: Count = 30,  # seidenschwarz2021 C.3
    alpha: NotNegative = 2 / 3,  # seidenschwarz2021 eq. 7
    size: Count = 7,  # seidenschwarz2021 C.3: CUB and Cars (4 on In-Shop)
    strict: bool = False,
) -> Groups:
    """A group of `size` rows for every row: the row and the nearest of its expanded reciprocal neighbours.

    N(q, k) is q and its k nearest rows (Euclidean, rows as given); R(q, k) contains the g in N(q, k) with q in N(g, k).
    R(q, k) is expanded by R(g, k/2) for each of its g with at least a share alpha of R(g, k/2) in R(q, k) (`strict`:
    more than alpha, as in the released code). If there are too few, the nearest other rows fill the group. Ties are in
    the order of rows, k/2 is rounded half to even, and k is at most the number of rows.

    With a gallery, the rows are queries: N(q) is the k + 1 nearest gallery rows, g is kept if q is among the k + 1
    nearest queries of g, and expansions stay within the gallery. The first column of `members` then indexes queries,
    the others gallery rows. Memory: O(n k) and a few rows of the distance matrix.

    >>> reciprocal = reciprocal_groups(np.array([[0.0], [1.0], [1.5], [9.0]]), k=1, size=2)
    >>> reciprocal.members.tolist(), reciprocal.reciprocal_size.tolist()
    ([[0, 1], [1, 2], [2, 1], [3, 2]], [1, 2, 2, 1])
    """
    there = len(rows) if gallery is None else len(gallery) + 1
    if size > there:
        raise BadInput(f"The group size is {size}, but there are only {there} rows.")
    if gallery is None:
        lists = _with_itself(rows, k)
        back, halves = lists, lists[:, : round(k / 2) + 1]
    else:
        lists = nearest_lists(rows, min(k + 1, len(gallery)), gallery)
        back, halves = nearest_lists(gallery, min(k + 1, len(rows)), rows), _with_itself(gallery, round(k / 2))
    neighbours, stays = torch.from_numpy(lists), _mutual(lists, back)
    of_neighbours = torch.from_numpy(np.ascontiguousarray(halves)), _mutual(halves, halves)
    alone = gallery is None
    members, expanded_size = np.empty((len(rows), size), np.int64), np.empty(len(rows), np.int64)
    members[:, 0] = np.arange(len(rows))
    for queries, values in similarity_blocks(_searched(rows, gallery), distance="euclidean"):
        asked = torch.from_numpy(queries)
        listed = neighbours[asked], stays[asked], *of_neighbours
        union = _expanded(*listed, values.shape[1], alpha=alpha, strict=strict)
        expanded_size[queries] = union.sum(1).numpy()
        if alone:  # the row itself comes first, even with duplicates
            values[torch.arange(len(asked)), asked] = torch.inf
        first = 0 if alone else 1
        if size > first:
            members[queries, first:] = _members(values, union, size - first).numpy()
    return Groups(members, (0,), stays.sum(1).numpy(), expanded_size)


def _with_itself(rows: Array, k: int) -> Array:
    return np.concatenate((np.arange(len(rows))[:, None], nearest_lists(rows, min(k, len(rows) - 1))), axis=1)


def _mutual(lists: Array, back: Array) -> Tensor:
    """For every entry g of the list of q, whether q is in back[g]."""
    mask = np.empty(lists.shape, dtype=bool)
    step = max(1, _ENTRIES // (lists.shape[1] * back.shape[1]))
    for start in range(0, len(lists), step):
        part = slice(start, start + step)
        asked = np.arange(start, start + len(lists[part]))
        mask[part] = (back[lists[part]] == asked[:, None, None]).any(axis=2)
    return torch.from_numpy(mask)


def _expanded(
    lists: Tensor, stays: Tensor, halves: Tensor, mutual: Tensor, columns: int, *, alpha: float, strict: bool
) -> Tensor:
    """`[queries, columns]`: mask of R(q, k) and of each R(g, k/2) that is mostly within it.

    lists: N(q, k) of some queries, with the mask of R(q, k). halves, mutual: the same for all g and k/2.
    """
    inside = torch.zeros(len(lists), columns, dtype=torch.bool).scatter_(1, lists, stays)
    offered, valid = halves[lists], mutual[lists]  # [queries, list, half]
    shared = (inside.gather(1, offered.flatten(1)).view_as(offered) & valid).sum(2)
    needed = alpha * valid.sum(2).double()
    joins = stays & (shared > needed if strict else shared >= needed)
    query, entry, half = (valid & joins[:, :, None]).nonzero(as_tuple=True)
    inside[query, offered[query, entry, half]] = True
    return inside


def _members(values: Tensor, union: Tensor, size: int) -> Tensor:
    """The nearest rows of the union, then the nearest other rows."""
    both = torch.cat([largest(values.masked_fill(mask, -torch.inf), size) for mask in (~union, union)], dim=1)
    count, slot = union.sum(1, keepdim=True).clamp_max(size), torch.arange(size)
    return both.gather(1, torch.where(slot < count, slot, size + slot - count))


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
