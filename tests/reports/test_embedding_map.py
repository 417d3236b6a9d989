"""Maps of embeddings: the gradient of t-SNE against slow loops, what maps show, and unusual rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import triu
from sklearn.manifold import TSNE, trustworthiness

from levelfield.errors import BadInput
from levelfield.reports import embedding_map
from levelfield.reports.embedding_map import embedding_maps, landmark_note
from levelfield.reports.tsne import _Grid, _weights, affinities, attract, repel


def blobs(count: int = 240, classes: int = 8, dim: int = 16, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows around as many centres as there are classes, and their classes."""
    stream = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    return stream.normal(size=(classes, dim))[labels] + 0.25 * stream.normal(size=(count, dim)), labels


def same_class_share(places: np.ndarray, labels: np.ndarray) -> float:
    """How often the nearest point of the map has the same class."""
    distances = np.square(places[:, None] - places).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    return float((labels[distances.argmin(axis=1)] == labels).mean())


@pytest.mark.parametrize(("width", "error"), [(1e-3, 0.02), (3.0, 0.02), (20.0, 0.1)])  # coarser in a large map
def test_repulsion_is_the_sum_over_all_points(width: float, error: float) -> None:
    places = (width * np.random.default_rng(0).normal(size=(1500, 2))).astype(np.float32)
    places -= places.mean(axis=0)
    apart = places[:, None].astype(np.float64) - places
    near = 1 / (1 + np.square(apart).sum(axis=2))
    forces, nearness = (apart * np.square(near)[:, :, None]).sum(axis=1), near.sum() - len(places)
    found = np.empty_like(places)
    assert repel(places, found) == pytest.approx(nearness, rel=1e-5)
    assert np.abs(found - forces).max() < 1e-4 * np.abs(forces).max()
    assert _Grid().repel(places, found) == pytest.approx(nearness, rel=0.01)
    assert np.abs(found - forces).max() < error * np.abs(forces).max()


def test_attraction_is_the_sum_over_the_edges() -> None:
    graph = affinities(blobs(40)[0])
    places = np.random.default_rng(1).normal(size=(40, 2)).astype(np.float32)
    found = np.empty_like(places)
    half = triu(graph, 1, "csr")
    attract(half.indptr, half.indices, half.data.astype(np.float32), places, found)
    apart = places[:, None].astype(np.float64) - places
    pull = graph.toarray() / (1 + np.square(apart).sum(axis=2))
    np.testing.assert_allclose(found, (pull[:, :, None] * apart).sum(axis=1), rtol=1e-4, atol=1e-7)


def test_affinities_have_the_perplexity_and_sum_to_one() -> None:
    rows, _ = blobs()
    squares = np.sort(np.square(rows[:, None] - rows).sum(axis=2), axis=1)[:, 1:61]
    weights = _weights(squares, 20.0)
    np.testing.assert_allclose(np.exp(-(weights * np.log(weights)).sum(axis=1)), 20.0, rtol=1e-6)
    graph = affinities(rows)
    assert graph.sum() == pytest.approx(1)
    assert abs(graph - graph.T).max() == 0


def test_a_map_is_as_trustworthy_as_scikit_learns() -> None:
    rows, labels = blobs()
    places = embedding_maps({"margin": rows})["margin"]
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    theirs = TSNE(init="pca", random_state=0, perplexity=20, max_iter=500).fit_transform(units)
    ours = trustworthiness(units, places, n_neighbors=10)
    assert ours > trustworthiness(units, theirs, n_neighbors=10) - 0.01
    assert same_class_share(places, labels) == 1
    assert 0 <= places.min() < places.max() <= 1


def test_maps_are_equal_with_any_number_of_threads() -> None:
    rows_of = {name: blobs(seed=seed)[0] for seed, name in enumerate("abc")}
    one, three = embedding_maps(rows_of), embedding_maps(rows_of, threads=3)
    assert list(one) == list(three) == list(rows_of)
    assert all(np.array_equal(one[name], three[name]) for name in rows_of)


def test_a_later_map_is_nearer_to_the_first_than_a_map_of_its_own() -> None:
    rows, _ = blobs()
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(16, 16)))[0]
    other = rows @ turn + 0.02 * np.random.default_rng(3).normal(size=rows.shape)  # nearly the same distances
    both = embedding_maps({"first": rows, "second": other})
    alone = embedding_maps({"second": other})["second"]
    spread = np.linalg.norm(both["first"] - 0.5, axis=1).mean()
    assert np.linalg.norm(both["first"] - both["second"], axis=1).mean() < 0.3 * spread
    assert np.linalg.norm(both["first"] - alone, axis=1).mean() > 0.3 * spread


def test_length_counts_only_if_rows_are_not_normalized() -> None:
    directions = np.repeat(np.random.default_rng(4).normal(size=(1, 8)), 60, axis=0)
    labels = np.arange(60) % 2
    rows = directions * (1 + 9 * labels[:, None]) + 0.01 * np.random.default_rng(5).normal(size=(60, 8))
    assert same_class_share(embedding_maps({"a": rows}, normalize=False)["a"], labels) == 1
    assert same_class_share(embedding_maps({"a": rows})["a"], labels) < 1


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6])
def test_a_few_images_have_a_map(count: int) -> None:
    rows = np.random.default_rng(0).normal(size=(count, 4))
    maps = embedding_maps({"a": rows, "b": rows[:, :1]})
    for places in maps.values():
        assert places.shape == (count, 2)
        assert np.isfinite(places).all()
    assert len(np.unique(maps["a"], axis=0)) == count


@pytest.mark.parametrize("rows", [np.ones((60, 3)), np.zeros((60, 3)), np.repeat(np.eye(3), 20, axis=0)])
def test_equal_rows_have_a_map(rows: np.ndarray) -> None:
    for places in embedding_maps({"a": rows, "b": rows}).values():
        assert np.isfinite(places).all()
        assert 0 <= places.min() <= places.max() <= 1


def test_long_rows_are_reduced_by_power_iterations() -> None:
    rows, labels = blobs(count=120, dim=700)
    assert same_class_share(embedding_maps({"a": rows})["a"], labels) == 1


def test_images_that_are_no_landmarks_are_placed_with_their_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_map, "LANDMARKS", 100)
    rows, labels = blobs(count=400)
    maps = embedding_maps({"a": rows, "b": rows[:, ::-1]})
    assert all(same_class_share(places, labels) > 0.99 for places in maps.values())
    assert landmark_note(100) is None
    assert "100 of 400 images" in str(landmark_note(400))


def test_rows_that_cannot_be_mapped_are_errors() -> None:
    rows, _ = blobs(count=12)
    rows[3, 2] = np.nan
    with pytest.raises(BadInput, match="'margin': 1 of 12 rows contain NaN or infinity; the first is row 3"):
        embedding_maps({"margin": rows})
    assert embedding_maps({}) == {}


def test_an_error_in_the_first_map_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise MemoryError("too large")

    monkeypatch.setattr(embedding_map, "_components", fail)
    with pytest.raises(MemoryError, match="too large"):
        embedding_maps({name: blobs(60)[0] for name in "abc"}, threads=2)
