"""Agreement with other libraries where they are correct. Where they are not: docs/metrics.md."""

from __future__ import annotations

import numpy as np
import pytest
from pytorch_metric_learning.distances import CosineSimilarity, LpDistance
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN

from levelfield.evaluation import evaluate

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
def test_self_search_and_queries_in_a_gallery_give_the_numbers_of_pml(sample, distance, average):
    calculator = AccuracyCalculator(
        tuple(NAMES), knn_func=CustomKNN(SEARCH[distance]), kmeans_func=id, avg_of_avgs=average == "class"
    )
    points, labels = sample
    queries, gallery = (points[::3], labels[::3]), (np.delete(points, np.s_[::3], 0), np.delete(labels, np.s_[::3]))
    beside = {"gallery": gallery[0], "gallery_labels": gallery[1]}
    for asked, others, theirs in (
        (sample, {}, calculator.get_accuracy(*sample)),
        (queries, beside, calculator.get_accuracy(*queries, *gallery)),
    ):
        ours = evaluate(*asked, **others, metrics=NAMES.values(), distance=distance, average=average)
        assert ours.n_lone > 0
        assert {name: ours[own] for name, own in NAMES.items()} == pytest.approx(theirs, abs=1e-4)
