"""Confusions, planted label errors, duplicates and leaks, and the choice of queries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from looked_at import draw, embeddings
from PIL import Image
from test_report_page_search import LABELS, images

from levelfield.data.checks.leaks import Leaks, Pair
from levelfield.reports.page import looking
from levelfield.reports.page.image_set import ImageSet
from levelfield.reports.page.sections.mistakes import by_class, duplicates, label_errors, leaks_of
from levelfield.reports.page.sections.neighbour_lists import SearchResult, search
from levelfield.reports.page.thumbnails import thumbnails_of


def found_in(rows: np.ndarray, own: ImageSet) -> SearchResult:
    found = search(rows, own)
    assert found is not None
    return found


def test_recall_and_confusions_by_class() -> None:
    rows = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0)
    labels = np.repeat(np.arange(3), 4)
    labels[:2] = 1  # as far as the rest of class 0 can see, which finds them first
    made = by_class(found_in(rows, images(labels)), images(labels))
    assert made.taken_for == [(0, 1, 2)]
    assert made.recall.tolist() == [0.0, 1.0, 1.0]


def test_a_class_without_queries_that_count_has_no_recall() -> None:
    labels = np.array([0, 0, 1])
    made = by_class(found_in(embeddings(labels), images(labels)), images(labels))
    assert np.isnan(made.recall[1])


def test_a_wrong_label_is_found_if_methods_agree() -> None:
    labels = np.repeat(np.arange(4), 6)
    rows = [embeddings(labels, noise=0.02, seed=seed) for seed in range(3)]
    labels = labels.copy()
    labels[0] = 3
    listed = label_errors([found_in(one, images(labels)) for one in rows], images(labels))
    assert [(one.image, one.says, one.votes, one.of) for one in listed] == [(0, 0, 3, 3)]


def test_one_method_alone_accuses_nobody() -> None:
    labels = np.repeat(np.arange(4), 6)
    labels[0] = 3
    assert label_errors([found_in(embeddings(labels), images(labels))], images(labels)) == []


def test_copies_are_found_and_pictures_of_one_shape_in_other_colours_are_not(tmp_path: Path) -> None:
    paths = draw(tmp_path, LABELS)
    picture = Image.open(paths[0]).convert("RGB")
    picture.resize((200, 200)).save(paths[9], "PNG")  # a scaled copy, of another class
    red, green, blue = picture.split()
    Image.merge("RGB", (blue, red, green)).save(paths[20])
    own = ImageSet(paths, images().classes, LABELS)
    listed = duplicates(thumbnails_of(paths, None), own)
    assert (listed[0].first, listed[0].second) == (0, 9)
    assert not any(20 in (one.first, one.second) and 0 in (one.first, one.second) for one in listed)


def test_leaks_are_named_by_their_test_image() -> None:
    own = images()
    pair = Pair(Path("train/x.png"), Path("3.png"), "duck", "goose")
    elsewhere = Pair(Path("train/x.png"), Path("not-here.png"), "duck", "goose")
    leaks = Leaks((), (pair, elsewhere), None, closed=False, train=9, test=28)
    [found] = leaks_of(leaks, own)
    assert found.image == 3
    assert "x.png" in found.text
    assert leaks_of(None, own) == []


def test_a_large_set_keeps_wrong_queries_first(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [embeddings(LABELS, noise=1.2, seed=0), embeddings(LABELS, noise=1.2, seed=1)]
    found = [found_in(one, images()) for one in rows]
    assert looking._chosen_queries(found, images()) is None
    wrong = np.flatnonzero((found[0].first_right > 1) & (found[1].first_right > 1))
    some = np.flatnonzero((found[0].first_right > 1) | (found[1].first_right > 1))
    monkeypatch.setattr(looking, "_MANY", 5)
    monkeypatch.setattr(looking, "_FEW", len(wrong) + 1)
    monkeypatch.setattr(looking, "_FEWEST", 1)
    kept = looking._chosen_queries(found, images())
    assert kept is not None
    assert set(wrong) <= set(kept) <= set(some)
    assert len(kept) == len(wrong) + 1


def test_thumbnails_of_a_large_set_are_those_that_are_needed() -> None:
    found = [found_in(embeddings(LABELS), images())]
    kept = np.array([2, 5])
    picked = looking._chosen_thumbnails(found, kept, images(), [27], 6)
    assert picked is not None
    assert len(picked) == 6
    assert {27, 2, 5, int(found[0].neighbours[2, 0]), int(found[0].neighbours[5, 0])} <= set(picked.tolist())
    assert looking._chosen_thumbnails(found, None, images(), [], len(LABELS)) is None


def test_with_many_methods_each_keeps_fewer_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [found_in(embeddings(LABELS, seed=seed), images()) for seed in range(4)]
    monkeypatch.setattr(looking, "_ALL_LISTS", 40)
    monkeypatch.setattr(looking, "_FEWEST", 5)
    kept = looking._chosen_queries(found, images())
    assert kept is not None
    assert len(kept) == 10
