"""The search of the page against a loop over pairs, and what follows from it: thresholds, mistakes, chosen queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from looked_at import draw, embeddings
from PIL import Image

from levelfield.data.checks.leaks import Leaks, Pair
from levelfield.evaluation import same_or_not
from levelfield.reports.page import neighbour_lists, one_test_set
from levelfield.reports.page.image_set import ImageSet, thumbnails_of
from levelfield.reports.page.mistakes import by_class, duplicates, label_errors, leaks_of
from levelfield.reports.page.neighbour_lists import SearchResult, search
from levelfield.reports.page.same_or_not import TEST, VALIDATION, threshold_of

LABELS = np.repeat(np.arange(7), 4)


def images(labels: np.ndarray = LABELS, asked: np.ndarray | None = None) -> ImageSet:
    classes = [f"class {number}" for number in range(int(labels.max()) + 1)]
    return ImageSet([Path(f"{number}.png") for number in range(len(labels))], classes, labels, asked)


def test_names_of_absolute_and_relative_paths_begin_in_their_common_folder() -> None:
    here = Path.cwd()
    paths = [Path("photos/a/1.png"), here / "photos" / "b" / "2.png"]
    assert ImageSet(paths, ["a"], np.zeros(2, np.int64)).names == ["a/1.png", "b/2.png"]


def test_neighbours_and_ranks_are_those_of_a_loop() -> None:
    rows, own = embeddings(LABELS, noise=1.5), images()
    rows[[3, 9, 20]] = rows[5]  # ties
    found = search(rows, own)
    cosine = _cosines(rows)
    for query in range(len(rows)):
        order = [k for k in np.argsort(-cosine[query], kind="stable") if k != query]
        assert found.neighbours[query].tolist() == order[: neighbour_lists.NEAREST]
        first = next(rank for rank, k in enumerate(order, 1) if LABELS[k] == LABELS[query])
        assert found.first_right[query] == first
    np.testing.assert_allclose(found.similarity[:, 0], np.sort(_without_self(cosine), axis=1)[:, -1], atol=1e-6)
    assert (found.first_right > neighbour_lists.NEAREST).any()  # a rank that had to be counted
    rows = embeddings(LABELS, noise=1.0)
    _check_counts(search(rows, own), rows, np.arange(len(rows)), np.arange(len(rows)))


def test_roles_are_respected() -> None:
    asked = np.arange(len(LABELS)) % 4 == 0
    rows, own = embeddings(LABELS), images(asked=asked)
    found = search(rows, own)
    np.testing.assert_array_equal(found.queries, np.flatnonzero(asked))
    assert not asked[found.neighbours].any()
    _check_counts(found, rows, found.queries, np.flatnonzero(~asked))
    assert made_of(rows, own)["intervals"] is None


def test_tied_images_come_in_their_order_and_the_query_never_finds_itself() -> None:
    rows = np.ones((6, 3), np.float32)
    found = search(rows, images(np.array([0, 0, 0, 1, 1, 2])))
    assert found.neighbours[2].tolist() == [0, 1, 3, 4, 5]
    assert found.first_right.tolist() == [1, 1, 1, 4, 4, 0]
    assert search(embeddings(np.zeros(4, int)), images(np.zeros(4, int))).first_right.tolist() == [1, 1, 1, 1]
    assert search(embeddings(np.zeros(1, int)), images(np.zeros(1, int))) is None


def test_other_distances_have_no_pairs_and_similarities_in_their_unit() -> None:
    rows = embeddings(LABELS)
    found = search(rows, images(), distance="euclidean")
    assert found.edges is None
    apart = np.linalg.norm(rows[0] - rows[found.neighbours[0, 0]])
    assert found.similarity[0, 0] == pytest.approx(-apart, rel=1e-5)


def test_of_a_large_set_some_queries_are_searched_among_all_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbour_lists, "MOST_SEARCHED", 9)
    rows, own = embeddings(LABELS, noise=1.5), images()
    found = search(rows, own)
    assert len(found.queries) == 9
    cosine = _without_self(_cosines(rows))
    np.testing.assert_array_equal(found.neighbours[:, 0], cosine[found.queries].argmax(axis=1))


def _check_counts(found: SearchResult, rows: np.ndarray, queries: np.ndarray, gallery: np.ndarray) -> None:
    cosine = _cosines(rows)
    for label in range(7):
        own = [(i, j) for i in queries if LABELS[i] == label for j in gallery if i != j]
        same, other = ([cosine[i, j] for i, j in own if (LABELS[j] == label) == equal] for equal in (True, False))
        for place in range(0, neighbour_lists.EDGES, 13):
            edge = found.edges[place] + 1e-9
            assert found.same[label, place] == sum(value >= edge for value in same)
            assert found.other[label, place] == sum(value >= edge for value in other)
        assert found.pairs[:, label].tolist() == [len(same), len(other)]


def _cosines(rows: np.ndarray) -> np.ndarray:
    unit = rows.astype(np.float64) / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    return unit @ unit.T


def _without_self(cosine: np.ndarray) -> np.ndarray:
    return cosine - 10 * np.eye(len(cosine))


MANY = np.repeat(np.arange(20), 5)


def made_of(rows: np.ndarray, own: ImageSet, chosen: float | None = None) -> dict[str, Any]:
    return threshold_of(search(rows, own), rows, own, chosen)


def test_the_curves_are_the_rates_of_the_library_at_the_same_thresholds() -> None:
    rows, own = embeddings(MANY, noise=0.9), images(MANY)
    made = made_of(rows, own)
    assert made["source"] == TEST
    assert made["intervals"] is not None
    theirs = same_or_not(rows[:40], MANY[:40], ci=None)  # any threshold; its rates on other classes
    others = images(MANY[40:] - 8)
    curve = made_of(rows[40:], others, theirs.value)
    assert curve["source"] == VALIDATION
    rates = theirs.rates(rows[40:], MANY[40:])
    at = (
        np.interp(theirs.value, curve["grid"], curve["false_accept"]),
        np.interp(theirs.value, curve["grid"], curve["false_reject"]),
    )
    assert at[0] == pytest.approx(rates.false_match.value, abs=0.02)
    assert at[1] == pytest.approx(rates.false_non_match.value, abs=0.02)
    low, high = curve["intervals"]["false_accept"][int(np.searchsorted(curve["grid"], theirs.value))]
    assert low == pytest.approx(rates.false_match.low, abs=0.03)
    assert high == pytest.approx(rates.false_match.high, abs=0.03)


def test_both_error_rates_are_equal_at_the_threshold_and_pairs_are_on_their_side_of_it() -> None:
    rows, own = embeddings(MANY, noise=0.9), images(MANY)
    made = made_of(rows, own)
    for labels in (np.zeros(5, int), np.arange(5)):  # pairs of one kind only
        alike = embeddings(labels), images(labels)
        assert threshold_of(search(*alike), *alike, None) is None
    accept, reject = made["false_accept"], made["false_reject"]
    at = [np.interp(made["value"], made["grid"], rates) for rates in (accept, reject)]
    assert at[0] == pytest.approx(at[1], abs=0.01)
    assert (accept, reject) == (sorted(accept, reverse=True), sorted(reject))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for pairs, above in ((made["above"], True), (made["below"], False)):
        assert {MANY[i] == MANY[j] for i, j, _ in pairs} == {True, False}
        assert len({frozenset((i, j)) for i, j, _ in pairs}) == len(pairs) == 24
        for i, j, similarity in pairs:
            assert i != j
            assert similarity == pytest.approx(float(unit[i] @ unit[j]), abs=1e-4)
            assert (similarity >= made["value"] - 1e-4) if above else (similarity <= made["value"] + 1e-4)


def test_recall_and_confusions_by_class() -> None:
    rows = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0)
    labels = np.repeat(np.arange(3), 4)
    labels[:2] = 1  # as far as the rest of class 0 can see, which finds them first
    made = by_class(search(rows, images(labels)), images(labels))
    assert made["taken_for"] == [(0, 1, 2)]
    assert made["recall"].tolist() == [0.0, 1.0, 1.0]
    alone = images(np.array([0, 0, 1]))
    assert np.isnan(by_class(search(embeddings(alone.codes), alone), alone)["recall"][1])


def test_a_wrong_label_is_found_if_methods_agree() -> None:
    labels = np.repeat(np.arange(4), 6)
    rows = [embeddings(labels, noise=0.02, seed=seed) for seed in range(3)]
    labels = labels.copy()
    labels[0] = 3
    listed = label_errors([search(one, images(labels)) for one in rows], images(labels))
    assert listed == [{"image": 0, "says": 0, "votes": 3, "of": 3}]
    assert label_errors([search(rows[0], images(labels))], images(labels)) == []  # one method alone accuses nobody


def test_copies_are_found_and_pictures_of_one_shape_in_other_colours_are_not(tmp_path: Path) -> None:
    paths = draw(tmp_path, LABELS)
    picture = Image.open(paths[0]).convert("RGB")
    picture.resize((200, 200)).save(paths[9], "PNG")  # a scaled copy, of another class
    red, green, blue = picture.split()
    Image.merge("RGB", (blue, red, green)).save(paths[20])
    own = ImageSet(paths, images().classes, LABELS)
    listed = duplicates(thumbnails_of(paths, None), own)
    assert (listed[0]["first"], listed[0]["second"]) == (0, 9)
    assert not any({one["first"], one["second"]} == {0, 20} for one in listed)


def test_leaks_are_named_by_their_test_image() -> None:
    own = images()
    pair = Pair(Path("train/x.png"), Path("3.png"), "duck", "goose")
    elsewhere = Pair(Path("train/x.png"), Path("not-here.png"), "duck", "goose")
    leaks = Leaks((), (pair, elsewhere), None, closed=False, train_images=9, test_images=28)
    [found] = leaks_of(leaks, own)
    assert found["image"] == 3
    assert "x.png" in found["text"]
    assert leaks_of(None, own) == []


def test_a_large_set_lists_wrong_queries_first_and_with_many_methods_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [search(embeddings(LABELS, noise=1.2, seed=seed), images()) for seed in range(2)]
    assert one_test_set._chosen_queries(found, images()) is None
    wrong = np.flatnonzero((found[0].first_right > 1) & (found[1].first_right > 1))
    some = np.flatnonzero((found[0].first_right > 1) | (found[1].first_right > 1))
    monkeypatch.setattr(one_test_set, "_MAX_LISTED_IMAGES", 5)
    monkeypatch.setattr(one_test_set, "_MAX_QUERIES", len(wrong) + 1)
    monkeypatch.setattr(one_test_set, "_MIN_QUERIES", 1)
    lists = one_test_set._chosen_queries(found, images())
    assert set(wrong) <= set(lists) <= set(some)
    assert len(lists) == len(wrong) + 1
    monkeypatch.setattr(one_test_set, "_ALL_LISTS", 8)
    fewer = one_test_set._chosen_queries(found, images())
    assert len(fewer) == 4


def test_thumbnails_of_a_large_set_are_those_that_are_needed() -> None:
    found = [search(embeddings(LABELS), images())]
    picked = one_test_set._chosen_thumbnails(found, np.array([2, 5]), images(), [27], 6)
    assert len(picked) == 6
    assert {27, 2, 5, int(found[0].neighbours[2, 0]), int(found[0].neighbours[5, 0])} <= set(picked.tolist())
    assert one_test_set._chosen_thumbnails(found, None, images(), [], len(LABELS)) is None
