"""Evaluation beyond memory: every division of the search gives the bits of the search in memory, within the limit."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelfield import evaluation
from levelfield.errors import BadInput, BadSpecification, RunFailed
from levelfield.evaluation import evaluate, inputs, query_blocks
from levelfield.evaluation.inputs import FileRows
from levelfield.evaluation.queries import QueriesInGallery
from levelfield.evaluation.query_blocks import Shards, block_values, in_processes
from levelfield.evaluation.search import ranking
from levelfield.progress import CallbackProgress

SCRIPT = Path(__file__).parent / "memory_of_a_call.py"
METRICS = ["recall@1", "recall@4", "precision@8", "r_precision", "map@r", "map", "mrr"]
RANDOM = np.random.default_rng(0)
LABELS = np.concatenate([np.zeros(300, int), RANDOM.integers(1, 40, 595), [100, 101, 102, 103, 104]])  # one large class
POINTS = (RANDOM.normal(size=(900, 12)) + RANDOM.normal(size=(105, 12))[LABELS]).round(1)
POINTS[400:420] = POINTS[1]  # copies: tied rows of several classes
ORDER = RANDOM.permutation(900)
POINTS, LABELS = POINTS[ORDER], LABELS[ORDER]
ROWS = POINTS.astype(np.float32)


def mapped(folder: Path, rows: Any, name: str = "rows.npy") -> Any:
    np.save(folder / name, rows)
    return np.load(folder / name, mmap_mode="r")


def here(job: Any, blocks: Any) -> Iterator[Any]:
    return (block_values(job, block) for block in blocks)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never a copy of all rows: 7 parts of the gallery, and blocks of few queries."""
    monkeypatch.setattr(ranking.InMemory, "fits", lambda *_: False)
    for name, value in {"LEAST_GALLERY": 144, "MOST_GALLERY": 144, "QUERIES": 240}.items():
        monkeypatch.setattr(ranking, name, value)


def same(first: Any, second: Any) -> bool:
    values = all(np.array_equal(first.per_query[name], second.per_query[name]) for name in first.per_query)
    return bool(values and dict(first) == dict(second) and repr(first.intervals) == repr(second.intervals))


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot", "hamming"])
@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int16"])
def test_blocks_give_the_bits_of_one_in_memory(tmp_path: Path, small_parts: None, kind: str, distance: Any) -> None:
    rows = (POINTS * 10 if kind == "int16" else POINTS).astype(kind)
    for sample in (None, 7, 350):
        whole = evaluate(rows, LABELS, metrics=METRICS, distance=distance, ci=0.95, sample=sample)
        blocks = evaluate(mapped(tmp_path, rows), LABELS, metrics=METRICS, distance=distance, ci=0.95, sample=sample)
        assert whole.divided is None
        assert (blocks.divided.gallery, same(whole, blocks)) == (144, True)
        assert whole.signatures == blocks.signatures


@pytest.mark.parametrize("ties", ["expected", "pessimistic", "optimistic"])
def test_a_gallery_in_a_file_gives_the_same_bits(tmp_path: Path, small_parts: None, ties: Any) -> None:
    ids = np.where(np.arange(300) % 2, np.arange(300), -1)
    given = {"labels": LABELS[:300], "gallery_labels": LABELS, "query_ids": ids, "metrics": METRICS, "ties": ties}
    asked = ROWS[:300] + 0.1
    for gallery in (ROWS, ROWS.astype(np.float64)):
        whole = evaluate(asked, gallery=gallery, lone="miss", dim=7, ci=0.9, **given)
        stored = mapped(tmp_path, gallery)
        for queries in (asked, mapped(tmp_path, asked, "q.npy")):
            blocks = evaluate(queries, gallery=stored, lone="miss", dim=7, ci=0.9, **given)
            assert blocks.divided is not None
            assert same(whole, blocks)
    with pytest.warns(QueriesInGallery, match="All 100 queries"):
        evaluate(ROWS[:100], LABELS[:100], gallery=mapped(tmp_path, ROWS), gallery_labels=LABELS, metrics=["mrr"])


def test_many_positives_are_counted_in_little_memory(tmp_path: Path, small_parts: None) -> None:
    labels, sizes = np.arange(900) // 450, []

    def watched(job: Any, blocks: Any) -> Iterator[Any]:
        sizes.extend(map(len, blocks))
        return here(job, blocks)

    with pytest.raises(BadSpecification, match=r"minimum is '\d+MB'") as error:
        evaluate(ROWS, labels, memory="1MB", shards=Shards(here))
    least = str(error.value).split("'")[-2]
    found = evaluate(mapped(tmp_path, ROWS), labels, metrics=METRICS, memory=least, shards=Shards(watched))
    assert same(found, evaluate(ROWS, labels, metrics=METRICS))
    assert len(sizes) >= 4
    assert sum(sizes) == 900


def test_processes_give_the_same_bits_and_report_progress(tmp_path: Path) -> None:
    rows, heard = mapped(tmp_path, POINTS.astype(np.float16)), []
    progress = CallbackProgress(lambda _, done, total: heard.append((done, total)))
    found = evaluate(rows, LABELS, metrics=METRICS, shards=in_processes(2), progress=progress)
    assert found.divided.workers == 2
    assert same(found, evaluate(POINTS.astype(np.float16), LABELS, metrics=METRICS))
    assert (heard[0], heard[-1]) == ((0, 810_000), (810_000, 810_000))
    assert len(heard) == 3  # the start, and a block of each process


def test_a_worker_that_ends_is_an_error(tmp_path: Path) -> None:
    rows = mapped(tmp_path, ROWS)
    (tmp_path / "ends.py").write_text("import os\n\n\ndef ends(groups, *, k, form):\n    os._exit(3)\n")
    with pytest.raises(RunFailed, match=r"exited with code 3. Use fewer --jobs"):
        evaluate(rows, LABELS, metrics=[f"{tmp_path}/ends.py:ends"], shards=in_processes(1))
    (tmp_path / "fails.py").write_text("def fails(groups, *, k, form):\n    raise ValueError('no ranks')\n")
    with pytest.raises(RunFailed, match="ValueError: no ranks"):
        evaluate(rows, LABELS, metrics=[f"{tmp_path}/fails.py:fails"], shards=in_processes(1))


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "hamming"])
def test_a_file_gives_every_other_figure_of_the_array(tmp_path: Path, distance: Any) -> None:
    rows = POINTS.astype(np.float16)
    known = [name for name in evaluation.names() if evaluation.describe(name.replace("@K", "@1")).kind == "geometry"]
    known = [name for name in known if distance in (evaluation.describe(name).distances or [distance])]
    asked = {"metrics": [*known, "nmi", "recall@1"], "distance": distance}
    whole, found = evaluate(rows, LABELS, **asked), evaluate(mapped(tmp_path, rows), LABELS, **asked)
    assert len(whole) > 3
    assert dict(whole) == dict(found) == dict(evaluate(rows, LABELS, **asked, shards=Shards(here)))
    for one, other in zip(vars(whole.neighbours(3)).values(), vars(found.neighbours(3)).values(), strict=True):
        assert np.array_equal(one, other)


def test_what_cannot_be_divided_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = mapped(tmp_path, np.zeros((200, 50_000), np.float32))
    with pytest.raises(BadSpecification, match=r"minimum is '\d+MB'. Retrieval metrics .* leave out nmi"):
        evaluate(rows, np.arange(200) % 7, metrics=["nmi", "recall@1"], memory="60MB")
    with pytest.raises(BadSpecification, match="jobs=0"):
        in_processes(0)
    monkeypatch.setattr(query_blocks, "best_search", lambda inputs: "dense")
    with pytest.raises(BadSpecification, match="larger memory limit"):
        evaluate(POINTS, LABELS, shards=Shards(here))


def test_a_file_larger_than_the_limit_is_evaluated_within_it(tmp_path: Path) -> None:
    rows = np.lib.format.open_memmap(tmp_path / "rows.npy", mode="w+", dtype=np.float32, shape=(250_000, 128))
    part = np.random.default_rng(0).normal(size=(5_000, 128)).astype(np.float32)
    for begin in range(0, len(rows), len(part)):
        rows[begin : begin + len(part)] = part + begin
    rows.flush()
    command = [sys.executable, str(SCRIPT), str(tmp_path / "rows.npy"), "80MB", "100"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found["divided"]
    assert 10 * 10**6 < found["growth"] < 80 * 10**6 < (tmp_path / "rows.npy").stat().st_size


def test_rows_of_a_file_are_those_of_the_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_ROWS", 4)
    mapping, places = mapped(tmp_path, ROWS), np.array([899, 3, 4, 5, 5, 3, 0])
    rows = FileRows.of(mapping)
    for part in (slice(7, 300), slice(890, 1000), slice(5, 5), slice(None, None, 7), places, ROWS[:, 0] > 0):
        np.testing.assert_array_equal(rows[part], ROWS[part])
        np.testing.assert_array_equal(rows.first(2).astype(np.float64)[part], ROWS[part][:, :2].astype(np.float64))
    assert (rows.size, len(rows)) == (ROWS.size, 900)
    some = FileRows.of(mapping[100:200])
    np.testing.assert_array_equal(some[:], ROWS[100:200])
    changed, columns = np.load(tmp_path / "rows.npy", mmap_mode="c"), mapped(tmp_path, ROWS.T.copy().T, "f.npy")
    for other in (changed, columns, mapping[::2], mapping[:, :3], ROWS, [[1.0]]):
        assert FileRows.of(other) is None


def test_another_process_opens_the_path_and_a_damaged_file_is_named(tmp_path: Path) -> None:
    rows = FileRows.of(mapped(tmp_path, ROWS))
    sent = pickle.dumps(rows)
    np.testing.assert_array_equal(pickle.loads(sent)[:], ROWS)
    with (tmp_path / "rows.npy").open("r+b") as file:
        file.truncate(6000)
    with pytest.raises(BadInput, match=r"rows.npy ends in row 0 or later: it was shortened"):
        pickle.loads(sent)[:]
    (tmp_path / "rows.npy").unlink()
    with pytest.raises(BadInput, match=r"Cannot open .*rows.npy: No such file or directory. Every worker needs"):
        pickle.loads(sent)[:1]


def test_bad_rows_of_a_file_are_refused_as_those_of_an_array(tmp_path: Path) -> None:
    rows = ROWS.copy()
    rows[487, 5], rows[899, 0] = np.nan, np.inf
    for given in (mapped(tmp_path, rows), rows):
        with pytest.raises(BadInput, match="2 of 900 rows contain NaN or infinity; the first is row 487"):
            evaluate(given, LABELS)
        with pytest.raises(BadInput, match="900 embeddings but 899 labels"):
            evaluate(np.nan_to_num(given), LABELS[:-1])
