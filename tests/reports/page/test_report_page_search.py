"""The one pass over all queries against a loop over pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from looked_at import embeddings

from levelfield.evaluation.search.distances import unit_rows
from levelfield.reports.page.image_set import ImageSet
from levelfield.reports.page.sections import neighbour_lists as page_search
from levelfield.reports.page.sections.neighbour_lists import SearchResult, search
from levelfield.reports.tsne import nearest

LABELS = np.repeat(np.arange(7), 4)


def images(labels: np.ndarray = LABELS, asked: np.ndarray | None = None) -> ImageSet:
    classes = [f"class {number}" for number in range(int(labels.max()) + 1)]
    return ImageSet([Path(f"{number}.png") for number in range(len(labels))], classes, labels, asked)


def searched(rows: np.ndarray, own: ImageSet, **how: str) -> SearchResult:
    found = search(rows, own, **how)
    assert found is not None
    return found


def test_neighbours_and_ranks_are_those_of_a_loop() -> None:
    rows, own = embeddings(LABELS, noise=1.5), images()
    rows[[3, 9, 20]] = rows[5]  # ties
    found = searched(rows, own)
    cosine = _cosines(rows)
    for query in range(len(rows)):
        order = [k for k in np.argsort(-cosine[query], kind="stable") if k != query]
        assert found.neighbours[query].tolist() == order[: page_search.NEAREST]
        first = next(rank for rank, k in enumerate(order, 1) if LABELS[k] == LABELS[query])
        assert found.first_right[query] == first
    np.testing.assert_allclose(found.similarity[:, 0], np.sort(_without_self(cosine), axis=1)[:, -1], atol=1e-6)
    assert (found.first_right > page_search.NEAREST).any()  # a rank that had to be counted


def test_counts_of_pairs_are_those_of_a_loop() -> None:
    rows, own = embeddings(LABELS, noise=1.0), images()
    found = searched(rows, own)
    _check_counts(found, rows, np.arange(len(rows)), np.arange(len(rows)))


def test_roles_are_respected() -> None:
    asked = np.arange(len(LABELS)) % 4 == 0
    rows, own = embeddings(LABELS), images(asked=asked)
    found = searched(rows, own)
    np.testing.assert_array_equal(found.queries, np.flatnonzero(asked))
    assert not asked[found.neighbours].any()
    _check_counts(found, rows, found.queries, np.flatnonzero(~asked))


def test_tied_images_come_in_their_order_and_the_query_never_finds_itself() -> None:
    rows = np.ones((6, 3), np.float32)
    found = searched(rows, images(np.array([0, 0, 0, 1, 1, 2])))
    assert found.neighbours[2].tolist() == [0, 1, 3, 4, 5]
    assert found.first_right.tolist() == [1, 1, 1, 4, 4, 0]


def test_a_class_of_one_image_has_no_right_rank() -> None:
    labels = np.array([0, 0, 1])
    found = searched(embeddings(labels), images(labels))
    assert found.first_right[2] == 0


def test_one_class_and_one_image() -> None:
    found = searched(embeddings(np.zeros(4, int)), images(np.zeros(4, int)))
    assert found.first_right.tolist() == [1, 1, 1, 1]
    assert search(embeddings(np.zeros(1, int)), images(np.zeros(1, int))) is None


def test_the_neighbours_for_a_map_are_those_of_a_search_of_unit_rows() -> None:
    labels = np.arange(200) % 9
    rows = embeddings(labels, noise=1.0)
    found = searched(rows, images(labels))
    assert found.mapped is not None
    assert found.neighbours.shape[1] == page_search.NEAREST
    known = nearest(unit_rows(rows.astype(np.float64)))
    np.testing.assert_array_equal(found.mapped.positions, known.positions)
    np.testing.assert_allclose(found.mapped.squares, known.squares, atol=1e-6)


def test_other_distances_have_no_pairs_and_similarities_in_their_unit() -> None:
    rows = embeddings(LABELS)
    found = searched(rows, images(), distance="euclidean")
    assert found.edges is None
    apart = np.linalg.norm(rows[0] - rows[found.neighbours[0, 0]])
    assert found.similarity[0, 0] == pytest.approx(-apart, rel=1e-5)


def test_of_a_large_set_some_queries_are_searched_among_all_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_search, "MOST_SEARCHED", 9)
    rows, own = embeddings(LABELS, noise=1.5), images()
    found = searched(rows, own)
    assert len(found.queries) == 9
    cosine = _without_self(_cosines(rows))
    np.testing.assert_array_equal(found.neighbours[:, 0], cosine[found.queries].argmax(axis=1))


def _check_counts(found: SearchResult, rows: np.ndarray, queries: np.ndarray, gallery: np.ndarray) -> None:
    assert found.edges is not None
    assert found.same is not None
    assert found.other is not None
    assert found.pairs is not None
    cosine = _cosines(rows)
    for label in range(7):
        own = [(i, j) for i in queries if LABELS[i] == label for j in gallery if i != j]
        same, other = ([cosine[i, j] for i, j in own if (LABELS[j] == label) == equal] for equal in (True, False))
        for place in range(0, page_search.EDGES, 13):
            edge = found.edges[place] + 1e-9
            assert found.same[label, place] == sum(value >= edge for value in same)
            assert found.other[label, place] == sum(value >= edge for value in other)
        assert found.pairs[:, label].tolist() == [len(same), len(other)]


def _cosines(rows: np.ndarray) -> np.ndarray:
    unit = rows.astype(np.float64) / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    return unit @ unit.T


def _without_self(cosine: np.ndarray) -> np.ndarray:
    return cosine - 10 * np.eye(len(cosine))
