"""Evaluation beyond memory: every division of the search gives the bits of the search in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelfield import evaluation
from levelfield.errors import BadSpecification, RunFailed
from levelfield.evaluation import divided_search, evaluate
from levelfield.evaluation.query_blocks import block_values
from levelfield.evaluation.search import memory
from levelfield.evaluation.shards import Shards, in_processes
from levelfield.progress import CallbackProgress

METRICS = ["recall@1", "recall@4", "precision@8", "r_precision", "map@r", "map", "mrr"]
RANDOM = np.random.default_rng(0)
LABELS = np.concatenate([np.zeros(300, int), RANDOM.integers(1, 40, 595), [100, 101, 102, 103, 104]])  # one large class
POINTS = (RANDOM.normal(size=(900, 12)) + RANDOM.normal(size=(105, 12))[LABELS]).round(1)
POINTS[400:420] = POINTS[1]  # copies: tied rows of several classes
ORDER = RANDOM.permutation(900)
POINTS, LABELS = POINTS[ORDER], LABELS[ORDER]


def mapped(folder: Path, rows: Any, name: str = "rows.npy") -> Any:
    np.save(folder / name, rows)
    return np.load(folder / name, mmap_mode="r")


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never a copy of all rows: 7 parts of the gallery, and blocks of few queries."""
    monkeypatch.setattr(memory.InMemory, "fits", lambda *_: False)
    for name, value in {"LEAST_GALLERY": 144, "MOST_GALLERY": 144, "QUERIES": 240}.items():
        monkeypatch.setattr(memory, name, value)


def same(first: Any, second: Any) -> bool:
    values = all(np.array_equal(first.per_query[name], second.per_query[name]) for name in first.per_query)
    return bool(values and dict(first) == dict(second) and repr(first.intervals) == repr(second.intervals))


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot", "hamming"])
@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int16"])
def test_blocks_give_the_bits_of_the_search_in_memory(
    tmp_path: Path, small_parts: None, kind: str, distance: Any
) -> None:
    rows = (POINTS * 10 if kind == "int16" else POINTS).astype(kind)
    whole = evaluate(rows, LABELS, metrics=METRICS, distance=distance, ci=0.95)
    blocks = evaluate(mapped(tmp_path, rows), LABELS, metrics=METRICS, distance=distance, ci=0.95)
    assert whole.divided is None
    assert blocks.divided is not None
    assert (blocks.divided.gallery, blocks.divided.queries) == (144, 240)
    assert same(whole, blocks)
    assert whole.signatures == blocks.signatures


@pytest.mark.parametrize("ties", ["expected", "pessimistic", "optimistic"])
def test_a_gallery_in_a_file_gives_the_same_bits(tmp_path: Path, small_parts: None, ties: Any) -> None:
    rows, ids = POINTS.astype(np.float32), np.where(np.arange(300) % 2, np.arange(300), -1)
    given = {"labels": LABELS[:300], "gallery_labels": LABELS, "query_ids": ids, "metrics": METRICS, "ties": ties}
    asked = rows[:300] + 0.1
    for gallery in (rows, rows.astype(np.float64)):
        whole = evaluate(asked, gallery=gallery, lone="miss", dim=7, ci=0.9, **given)
        stored = mapped(tmp_path, gallery)
        for queries in (asked, mapped(tmp_path, asked, "q.npy")):
            blocks = evaluate(queries, gallery=stored, lone="miss", dim=7, ci=0.9, **given)
            assert blocks.divided is not None
            assert same(whole, blocks)


@pytest.mark.parametrize("size", [7, 350])
def test_a_sample_is_searched_in_the_rows_of_its_classes_with_the_same_bits(
    tmp_path: Path, small_parts: None, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(memory, "QUERIES", 48)
    rows, seen = POINTS.astype(np.float32), []

    def watched(job: Any, blocks: Any) -> Iterator[Any]:
        for block in blocks:
            seen.append(block)
            yield block_values(job, block)

    whole = evaluate(rows, LABELS, metrics=METRICS, sample=size)
    blocks = evaluate(mapped(tmp_path, rows), LABELS, metrics=METRICS, sample=size, shards=Shards(watched))
    assert same(whole, blocks)
    assert len(seen) == -(-size // 48)
    for block in seen:
        assert set(LABELS[block.candidates]) == set(LABELS[block.ids])
        mates = [set(block.candidates[low:high]) for low, high in zip(block.first, block.last, strict=True)]
        assert mates == [set(np.flatnonzero(LABELS[row] == LABELS)) for row in block.ids]
        assert np.array_equal(block.candidates[block.itself], block.ids)


def test_many_positives_are_counted_in_little_memory(tmp_path: Path, small_parts: None) -> None:
    rows, labels = POINTS.astype(np.float32), np.arange(900) // 450
    parts: list[int] = []

    def one_by_one(job: Any, blocks: Any) -> Iterator[Any]:
        for block in blocks:
            parts.append(len(block.rows))
            yield block_values(job, block)

    least = f"{_least(rows, labels)}MB"
    found = evaluate(mapped(tmp_path, rows), labels, metrics=METRICS, memory=least, shards=Shards(one_by_one))
    assert same(found, evaluate(rows, labels, metrics=METRICS))
    assert len(parts) >= 4
    assert sum(parts) == 900


def _least(rows: Any, labels: Any) -> int:
    with pytest.raises(BadSpecification, match=r"minimum is '\d+MB'") as error:
        evaluate(rows, labels, memory="1MB", shards=Shards(lambda job, blocks: iter(())))
    return int(str(error.value).split("'")[-2].removesuffix("MB"))


def test_processes_give_the_same_bits_and_report_progress(tmp_path: Path) -> None:
    rows, heard = mapped(tmp_path, POINTS.astype(np.float16)), []
    found = evaluate(
        rows,
        LABELS,
        metrics=METRICS,
        shards=in_processes(2),
        progress=CallbackProgress(lambda _, done, total: heard.append((done, total))),
    )
    assert found.divided is not None
    assert found.divided.workers == 2
    assert same(found, evaluate(POINTS.astype(np.float16), LABELS, metrics=METRICS))
    assert heard[0] == (0, 810_000)
    assert heard[-1] == (810_000, 810_000)
    assert len(heard) == 3  # the start, and a block of each process


def test_a_worker_that_ends_is_an_error(tmp_path: Path) -> None:
    rows = mapped(tmp_path, POINTS.astype(np.float32))
    (tmp_path / "ends.py").write_text("import os\n\n\ndef ends(groups, *, k, form):\n    os._exit(3)\n")
    with pytest.raises(RunFailed, match=r"exited with code 3. Use fewer --jobs"):
        evaluate(rows, LABELS, metrics=[f"{tmp_path}/ends.py:ends"], shards=in_processes(1))
    (tmp_path / "fails.py").write_text("def fails(groups, *, k, form):\n    raise ValueError('no ranks')\n")
    with pytest.raises(RunFailed, match="ValueError: no ranks"):
        evaluate(rows, LABELS, metrics=[f"{tmp_path}/fails.py:fails"], shards=in_processes(1))


def test_clustering_beside_shards_is_done_here(tmp_path: Path) -> None:
    rows = mapped(tmp_path, POINTS.astype(np.float16))
    shards = Shards(lambda job, blocks: (block_values(job, block) for block in blocks))
    found = evaluate(rows, LABELS, metrics=["nmi", "recall@1", "uniformity"], shards=shards)
    whole = evaluate(POINTS.astype(np.float16), LABELS, metrics=["nmi", "recall@1", "uniformity"])
    assert dict(found) == dict(whole)


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "hamming"])
def test_a_file_gives_every_other_figure_of_the_array(tmp_path: Path, distance: Any) -> None:
    rows = POINTS.astype(np.float16)
    known = [name for name in evaluation.names() if evaluation.describe(name.replace("@K", "@1")).kind == "geometry"]
    known = [name for name in known if distance in (evaluation.describe(name).distances or [distance])]
    whole, found = (
        evaluate(each, LABELS, metrics=[*known, "nmi"], distance=distance) for each in (rows, mapped(tmp_path, rows))
    )
    assert len(whole) > 2
    assert dict(whole) == dict(found)
    for one, other in zip(vars(whole.neighbours(3)).values(), vars(found.neighbours(3)).values(), strict=True):
        assert np.array_equal(one, other)


def test_clustering_that_does_not_fit_says_what_to_do(tmp_path: Path) -> None:
    rows = mapped(tmp_path, np.zeros((200, 50_000), np.float32))
    with pytest.raises(BadSpecification, match=r"minimum is '\d+MB'. Retrieval metrics .* leave out nmi"):
        evaluate(rows, np.arange(200) % 7, metrics=["nmi", "recall@1"], memory="60MB")


def test_a_machine_without_steady_products_refuses_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divided_search, "best_search", lambda inputs: "dense")
    with pytest.raises(BadSpecification, match="larger memory limit"):
        evaluate(POINTS, LABELS, shards=Shards(lambda job, blocks: iter(())))


def test_no_process_is_too_few() -> None:
    with pytest.raises(BadSpecification, match="jobs=0"):
        in_processes(0)
