"""The nearest rows against a full sort of every list."""

from __future__ import annotations

import numpy as np
import pytest

from levelfield.errors import BadSpecification
from levelfield.evaluation import evaluate


def similarity(query, gallery, distance):
    query, gallery = query.astype(np.float64), gallery.astype(np.float64)
    if distance == "hamming":
        return -((query[:, None] > 0) != (gallery > 0)).sum(axis=2).astype(np.float64)
    if distance == "euclidean":
        return -np.sqrt(((query[:, None] - gallery) ** 2).sum(axis=2))
    if distance == "cosine":
        lengths = np.outer(np.linalg.norm(query, axis=1), np.linalg.norm(gallery, axis=1))
        return query @ gallery.T / np.where(lengths > 0, lengths, 1)
    return query @ gallery.T


@pytest.mark.parametrize("distance", ["euclidean", "dot", "hamming"])
def test_level_rows_come_in_order_of_position_and_the_query_never(distance):
    random = np.random.default_rng(0)
    points = random.integers(-1, 2, size=(300, 3)).astype(np.float32)  # many rows are equal, many are level
    found = evaluate(points, random.integers(0, 20, 300), metrics=["mrr"], distance=distance).neighbours(12)
    values = similarity(points, points, distance)
    np.fill_diagonal(values, -np.inf)
    order = np.argsort(-values, axis=1, kind="stable")[:, :12]
    np.testing.assert_array_equal(found.positions, order)
    np.testing.assert_allclose(found.similarities, np.take_along_axis(values, order, axis=1), atol=1e-12)


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot", "hamming"])
def test_a_gallery_with_ids(distance):
    random = np.random.default_rng(1)
    gallery, query = random.normal(size=(200, 40)), random.normal(size=(70, 40))
    ids = np.where(np.arange(70) % 3 == 0, np.arange(70) + 5, -1)
    query[::3] = gallery[ids[::3]]
    found = evaluate(
        query, np.arange(70), gallery=gallery, gallery_labels=np.arange(200), query_ids=ids, distance=distance
    ).neighbours(5)
    values = similarity(query, gallery, distance)
    values[np.arange(70)[::3], ids[::3]] = -np.inf
    order = np.argsort(-values, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(found.positions, order)
    np.testing.assert_allclose(found.similarities, np.take_along_axis(values, order, axis=1), atol=1e-9)


def test_all_others_are_the_most_that_can_be_asked_for():
    result = evaluate(np.eye(5), [0, 0, 1, 1, 2])
    others = [[row for row in range(5) if row != query] for query in range(5)]
    assert np.sort(result.neighbours(4).positions, axis=1).tolist() == others
    for k in (0, 5):
        with pytest.raises(BadSpecification, match="must be 1 to 4"):
            result.neighbours(k)
