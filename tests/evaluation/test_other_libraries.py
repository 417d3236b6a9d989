"""Agreement with other libraries where they are correct. Where they are not: docs/metrics.md."""

from __future__ import annotations

import numpy as np
import pytest
from pytorch_metric_learning.distances import CosineSimilarity, LpDistance
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN
from sklearn.metrics import average_precision_score, pairwise_distances
from sklearn.neighbors import NearestNeighbors

from levelfield.evaluation import density, evaluate

NAMES = {
    "precision_at_1": "precision@1",
    "r_precision": "r_precision",
    "mean_average_precision_at_r": "map@r",
    "mean_average_precision": "map",
    "mean_reciprocal_rank": "mrr",
}
SEARCH = {"cosine": CosineSimilarity(), "euclidean": LpDistance(normalize_embeddings=False)}


@pytest.fixture
def sample():
    """Overlapping classes of uneven size, some of them of one row; no ties."""
    random = np.random.default_rng(0)
    labels = np.concatenate([random.integers(0, 60, 700), np.arange(100, 110)])
    return (random.normal(size=(110, 16))[labels] + 1.3 * random.normal(size=(710, 16))).astype(np.float32), labels


@pytest.mark.parametrize("distance", SEARCH)
@pytest.mark.parametrize("average", ["query", "class"])
def test_self_search_gives_the_numbers_of_pml(sample, distance, average):
    calculator = AccuracyCalculator(
        tuple(NAMES), knn_func=CustomKNN(SEARCH[distance]), kmeans_func=id, avg_of_avgs=average == "class"
    )
    theirs = calculator.get_accuracy(*sample)
    ours = evaluate(*sample, metrics=NAMES.values(), distance=distance, average=average)
    assert {name: ours[own] for name, own in NAMES.items()} == pytest.approx(theirs, abs=1e-4)


@pytest.mark.parametrize("distance", SEARCH)
def test_queries_in_a_gallery_give_the_numbers_of_pml(sample, distance):
    points, labels = sample
    queries, gallery = (points[::3], labels[::3]), (np.delete(points, np.s_[::3], 0), np.delete(labels, np.s_[::3]))
    calculator = AccuracyCalculator(tuple(NAMES), knn_func=CustomKNN(SEARCH[distance]), kmeans_func=id)
    theirs = calculator.get_accuracy(*queries, *gallery)
    ours = evaluate(*queries, gallery=gallery[0], gallery_labels=gallery[1], metrics=NAMES.values(), distance=distance)
    assert ours.n_lone > 0
    assert {name: ours[own] for name, own in NAMES.items()} == pytest.approx(theirs, abs=1e-4)


def test_a_cut_list_gives_the_numbers_of_pml(sample):
    calculator = AccuracyCalculator(
        ("mean_average_precision",), k=20, knn_func=CustomKNN(CosineSimilarity()), kmeans_func=id
    )
    theirs = calculator.get_accuracy(*sample)["mean_average_precision"]
    assert evaluate(*sample, metrics=["map@20"])["map@20"] == pytest.approx(theirs, abs=1e-4)


def test_average_precision_and_recall_are_those_of_scikit_learn(sample):
    points, labels = sample
    result = evaluate(points, labels, metrics=["map", "recall@1", "recall@8"], distance="euclidean")
    near = -pairwise_distances(points.astype(np.float64))
    for query in range(0, len(points), 7):
        others = np.arange(len(points)) != query
        positive = labels[others] == labels[query]
        if positive.any():
            wanted = average_precision_score(positive, near[query, others])
            assert result.per_query["map"][query] == pytest.approx(wanted, abs=1e-9)
    found = NearestNeighbors(n_neighbors=9).fit(points).kneighbors(return_distance=False)
    hits = labels[found] == labels[:, None]
    for k in (1, 8):
        np.testing.assert_array_equal(result.per_query[f"recall@{k}"], hits[:, :k].any(axis=1))


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_distances_within_a_class_are_those_of_scikit_learn(sample, distance):
    points, labels = sample
    means = []
    for name in np.unique(labels):
        own = pairwise_distances(points[labels == name].astype(np.float64), metric=distance)
        if len(own) > 1:
            means.append(own.sum() / (len(own) * (len(own) - 1)))
    assert density(points, labels, distance).intra == pytest.approx(np.mean(means), rel=1e-7)
