"""Rows read from a file: the same as those of the array, in any type, and errors that say what is wrong."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelfield.errors import BadInput
from levelfield.evaluation import evaluate, file_rows
from levelfield.evaluation.file_rows import FileRows

ROWS = np.random.default_rng(0).normal(size=(500, 6)).astype(np.float32)
LABELS = np.arange(500) // 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    np.save(tmp_path / "rows.npy", ROWS)
    return tmp_path / "rows.npy"


def read(path: Path) -> FileRows:
    found = FileRows.of(np.load(path, mmap_mode="r"))
    assert found is not None
    return found


def test_rows_are_those_of_the_array(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_rows, "_BYTES", 100)  # four rows at a time
    rows, places = read(path), np.array([499, 3, 3, 0])
    assert np.array_equal(rows[7:300], ROWS[7:300])
    assert np.array_equal(rows[490:600], ROWS[490:])
    assert rows[5:5].shape == (0, 6)
    assert np.array_equal(rows[::7], ROWS[::7])
    assert np.array_equal(rows[places], ROWS[places])
    assert np.array_equal(rows[ROWS[:, 0] > 0], ROWS[ROWS[:, 0] > 0])
    assert (rows.max(), rows.min(), rows.size, len(rows)) == (ROWS.max(), ROWS.min(), 3000, 500)
    assert rows.first(2).astype(np.float64)[498:].tolist() == ROWS[498:, :2].astype(np.float64).tolist()
    assert np.array_equal(rows.first(2)[places], ROWS[places, :2])


def test_rows_that_follow_each_other_are_read_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    rows, places, really = read(path), np.array([9, 10, 11, 11, 12, 3, 499]), os.preadv

    def watched(file: int, targets: list[memoryview], place: int) -> int:
        asked.append(len(targets[0]))
        return really(file, targets, place)

    monkeypatch.setattr(os, "preadv", watched)
    assert np.array_equal(rows[places], ROWS[places])
    assert asked == [3 * 24, 2 * 24, 24, 24]
    assert np.array_equal(rows.first(5)[places], ROWS[places, :5])
    assert asked[4:] == [20] * 7  # there is something between them


def test_parts_of_a_mapping_know_their_place_in_the_file(path: Path) -> None:
    mapping = np.load(path, mmap_mode="r")
    for part, right in ((mapping[100:200, :3], ROWS[100:200, :3]), (mapping[::3], ROWS[::3])):
        found = FileRows.of(part)
        assert found is not None
        assert np.array_equal(found[:], right)


def test_another_process_opens_the_path(path: Path) -> None:
    rows = read(path)
    sent = pickle.dumps(rows)
    assert len(sent) < 1000
    assert np.array_equal(pickle.loads(sent)[:], ROWS)
    path.unlink()
    with pytest.raises(BadInput, match=r"Cannot open .*rows.npy: No such file or directory. Every worker needs"):
        pickle.loads(sent)[0:1]


def test_what_is_not_a_plain_file_stays_an_array(path: Path) -> None:
    changed = np.load(path, mmap_mode="c")
    changed[0] = 1
    columns = np.asfortranarray(ROWS)
    np.save(path.with_name("f.npy"), columns)
    for other in (changed, ROWS, [[1.0]], np.load(path.with_name("f.npy"), mmap_mode="r")):
        assert FileRows.of(other) is None
    gone = np.load(path, mmap_mode="r")
    path.unlink()
    assert FileRows.of(gone) is None
    np.save(path, ROWS + 1)
    assert FileRows.of(gone) is None  # another file of that name
    assert dict(evaluate(gone, LABELS)) == dict(evaluate(ROWS, LABELS))


def test_a_file_that_is_shortened_is_noticed(path: Path) -> None:
    rows = read(path)
    with path.open("r+b") as file:
        file.truncate(6000)
    with pytest.raises(BadInput, match=r"rows.npy ends in row 0 or later: it was shortened"):
        rows[:]


@pytest.mark.parametrize(
    ("damage", "labels", "message"),
    [
        ({(487, 5): np.nan, (499, 0): np.inf}, LABELS, "2 of 500 rows contain NaN or infinity; the first is row 487"),
        ({}, LABELS[:-1], "500 embeddings but 499 labels"),
        ({}, LABELS[:, None], r"labels has shape \(500, 1\)"),
    ],
)
def test_bad_input_is_refused_as_for_arrays(path: Path, damage: dict[Any, float], labels: Any, message: str) -> None:
    rows = ROWS.copy()
    for place, value in damage.items():
        rows[place] = value
    np.save(path, rows)
    for given in (np.load(path, mmap_mode="r"), rows):
        with pytest.raises(BadInput, match=message):
            evaluate(given, labels)


def test_queries_that_are_in_the_gallery_are_noticed(path: Path) -> None:
    from levelfield.evaluation.queries import QueriesInGallery

    mapping = np.load(path, mmap_mode="r")
    with pytest.warns(QueriesInGallery, match="All 100 queries"):
        evaluate(ROWS[:100], LABELS[:100], gallery=mapping, gallery_labels=LABELS, metrics=["recall@1"])
