"""Ranks by both implementations of the search, and nearest rows, against a full sort of every list."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield.errors import BadInput, BadSpecification
from levelfield.evaluation import evaluate
from levelfield.evaluation.inputs import check_inputs
from levelfield.evaluation.search import blocked, ranking
from levelfield.evaluation.search.arrangement import EVERYWHERE, arrange
from levelfield.evaluation.search.blocked import blocked_counts
from levelfield.evaluation.search.blocked_kernels import SEARCH
from levelfield.evaluation.search.order import row_numbers
from levelfield.evaluation.search.products import product
from levelfield.evaluation.search.ranking import SEARCHES, InMemory, batches, count_ranks
from levelfield.evaluation.search.threads import share
from levelfield.progress import CallbackProgress

ALL = ["recall@1", "recall@5", "precision@3", "r_precision", "map@r", "map", "mrr", "map@c[released]", "map@20"]


def grid(random, count, *, dim=3, reach=2):
    """Whole numbers: many rows are level, many are equal, and every product is exact."""
    return random.integers(-reach, reach + 1, size=(count, dim)).astype(np.float32)


def one_huge_class(random):
    return np.concatenate([np.full(SEARCH + 50, 7), np.repeat(np.arange(100, 160), 3), [3]])


LABELS = {
    "small classes": lambda random: random.integers(0, 60, 500),
    "large classes": lambda random: random.integers(0, 2, 2 * SEARCH + 100),
    "one huge class": one_huge_class,
}


def slowly(inputs, distance):
    """(above, level) of every positive of every query from a full sort of its list, nearest first."""
    found = []
    for query, row in enumerate(inputs.query.astype(np.float64)):
        if distance == "euclidean":
            values = -((inputs.gallery.astype(np.float64) - row) ** 2).sum(axis=1)
        else:
            values = inputs.gallery.astype(np.float64) @ row
        related = inputs.gallery_codes == inputs.query_codes[query]
        others = np.ones(len(values), dtype=bool)
        if inputs.query_ids[query] >= 0:
            others[inputs.query_ids[query]] = False
        near = -np.sort(-values[related & others])
        rest = np.sort(values[~related & others])
        below, not_above = (np.searchsorted(rest, near, side) for side in ("left", "right"))
        found.append(list(zip((len(rest) - not_above).tolist(), (not_above - below).tolist(), strict=True)))
    return found


def as_lists(arranged, all_counts):
    """The same from the engine, in the caller's order of queries."""
    found = [[] for _ in arranged.query_order]
    for counts in all_counts:
        for line, query in enumerate(arranged.query_order[counts.begin : counts.end]):
            part = slice(counts.starts[line], counts.starts[line + 1])
            found[query] = list(zip(counts.above[part].tolist(), counts.level[part].tolist(), strict=True))
    return found


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("distance", ["euclidean", "dot"])
def test_counts_equal_those_of_a_full_sort(search, kind, distance):
    random = np.random.default_rng(0)
    labels = LABELS[kind](random)
    gallery, theirs = grid(random, len(labels)), random.permutation(labels)
    ids = np.where(random.random(150) < 0.5, random.integers(0, len(gallery), 150), -1)
    for inputs in (
        check_inputs(gallery, labels),
        check_inputs(grid(random, 150), labels[:150], gallery=gallery, gallery_labels=theirs, query_ids=ids),
    ):
        arranged = arrange(inputs, distance=distance)
        counted = count_ranks(arranged, np.full(len(inputs.query), EVERYWHERE), pairs=10**9, search=search)
        assert as_lists(arranged, counted) == slowly(inputs, distance)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_both_ways_agree_on_any_rows(data):
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    count = data.draw(st.integers(2, 130))
    kind = data.draw(st.sampled_from([np.float32, np.float64]))
    points = random.normal(size=(count, data.draw(st.integers(1, 6)))).astype(kind)
    if data.draw(st.booleans()):
        points = np.round(points)
    points = points[random.integers(0, count, count)]  # duplicates, within classes and between them
    labels = random.integers(0, data.draw(st.integers(1, 20)), count)
    distance = data.draw(st.sampled_from(["cosine", "euclidean", "dot", "hamming"]))
    ties = data.draw(st.sampled_from(["expected", "pessimistic", "optimistic"]))
    found = []
    for search in SEARCHES:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("levelfield.evaluation.engine.best_search", lambda *_, search=search: search)
            found.append(evaluate(points, labels, metrics=ALL, distance=distance, ties=ties))
    for name in ALL:
        np.testing.assert_array_equal(found[0].per_query[name], found[1].per_query[name], err_msg=name)


@pytest.mark.parametrize("search", SEARCHES)
def test_equal_rows_are_level_for_every_query_wherever_they_stand(search):
    random = np.random.default_rng(2)
    points = random.normal(size=(1500, 37)).astype(np.float32)
    labels = np.repeat(np.arange(500), 3)
    points[1400:1500] = points[:100]  # copies in other classes, blocks away
    arranged = arrange(check_inputs(points, labels), distance="cosine")
    counted = count_ranks(arranged, np.full(1500, EVERYWHERE), pairs=10**9, search=search)
    found = as_lists(arranged, counted)
    for query in range(100):
        positives = [row for row in range(query // 3 * 3, query // 3 * 3 + 3) if row != query and row < 100]
        assert sum(level >= 1 for _, level in found[query]) == len(positives)


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("size", [(576, 1152), (96, 192)])
def test_two_threads_count_what_one_counts(kind, size, monkeypatch):
    random = np.random.default_rng(3)
    labels = LABELS[kind](random)
    arranged = arrange(check_inputs(grid(random, len(labels), dim=8), labels), distance="cosine")
    reach = np.full(len(labels), EVERYWHERE)
    for name, value in zip(("HEIGHT", "WIDTH"), size, strict=True):
        monkeypatch.setattr(blocked, name, value)
    monkeypatch.setattr(blocked, "_WORTH", 1)  # two threads however little there is to do
    before = torch.get_num_threads()
    one, two = (blocked_counts(arranged, reach, 0, len(labels), threads=threads) for threads in (1, 2))
    assert torch.get_num_threads() == before
    for name in ("near", "above", "level", "active"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize(
    "metric", ["recall@1", "mrr", "r_precision", "map@r", "precision@3", "map@c[equation]", "map@20"]
)
def test_what_is_left_out_when_little_is_asked_for_changes_nothing(kind, metric):
    random = np.random.default_rng(4)
    labels = LABELS[kind](random)
    points = grid(random, len(labels), dim=4) + 3 * (labels % 5)[:, None].astype(np.float32)
    alone, among = (
        evaluate(points, labels, metrics=metrics, distance="euclidean") for metrics in ([metric], [*ALL, metric])
    )
    np.testing.assert_array_equal(alone.per_query[metric], among.per_query[metric])


@pytest.mark.parametrize("search", SEARCHES)
def test_rounds_of_few_queries_count_the_same(search):
    random = np.random.default_rng(5)
    labels = LABELS["one huge class"](random)
    arranged = arrange(check_inputs(grid(random, len(labels)), labels), distance="euclidean")
    reach = np.full(len(labels), EVERYWHERE)
    counted = (count_ranks(arranged, reach, pairs=pairs, search=search) for pairs in (10**9, 1000))
    whole, rounds = (as_lists(arranged, counts) for counts in counted)
    assert len(batches(arranged, 1000)) > 5
    assert whole == rounds


@pytest.mark.parametrize(
    ("metrics", "total"),
    [
        (["mrr"], 2000 * 2000),
        (["nmi"], 2 * 21 * 2000 * 60),
        (["uniformity[t=1]", "uniformity"], 2000 * 1999),
        (["uniformity", "mrr", "nmi"], 1000 * 1999 + 2000 * 2000 + 2 * 21 * 2000 * 60),
    ],
)
def test_progress_goes_from_nothing_to_all(metrics, total):
    random = np.random.default_rng(6)
    labels = np.arange(2000) % 60
    heard = []
    evaluate(
        grid(random, 2000),
        labels,
        metrics=metrics,
        starts=2,
        progress=CallbackProgress(lambda _, *now: heard.append(now)),
    )
    assert {of for _, of in heard} == {total}
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)
    assert (heard[0][0], heard[-1][0]) == (0, total)
    assert len({done for done, _ in heard}) > 3


def test_memory_too_small_says_what_is_needed():
    random = np.random.default_rng(7)
    points, labels = grid(random, 600), random.integers(0, 3, 600)
    with pytest.raises(BadSpecification, match=r"memory='1MB' is too little .* minimum is '(\d+)MB'") as error:
        evaluate(points, labels, memory="1MB")
    least = str(error.value).split("'")[-2]
    inputs = check_inputs(points, labels)
    pairs = InMemory.of(inputs, metrics=8, threads=1, search="blocked").pairs(least, inputs)
    assert len(batches(arrange(inputs, distance="dot"), pairs)) >= 1
    assert dict(evaluate(points, labels, memory=least)) == dict(evaluate(points, labels))
    for metric in ("nmi", "uniformity"):  # which need a copy
        with pytest.raises(BadSpecification, match=r"minimum is '\d+MB'") as error:
            evaluate(points, labels, metrics=[metric], memory="1MB")
        assert evaluate(points, labels, metrics=[metric], memory=str(error.value).split("'")[-2])


def test_an_error_in_a_thread_ends_the_search():
    def fail(task):
        raise ValueError(f"task {task}")

    with pytest.raises(ValueError, match="task 1"):
        list(share([1], fail, threads=2))


def test_without_numba_or_a_steady_matrix_library_the_search_is_in_plain_torch(monkeypatch):
    inputs = check_inputs(np.eye(4), [0, 0, 1, 1])
    assert ranking.best_search(inputs) == "blocked"
    assert ranking.best_search(replace(inputs, device=torch.device("cuda"))) == "dense"
    with monkeypatch.context() as patch:
        patch.setattr(ranking, "steady", lambda *_: False)
        assert ranking.best_search(inputs) == "dense"
    monkeypatch.setitem(sys.modules, "numba", None)  # importing it fails
    assert ranking.best_search(inputs) == "dense"


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_different_rows_of_whole_numbers_have_different_numbers(kind):
    for levels in (2, 3, 8):
        rows = np.unique(np.random.default_rng(0).integers(0, levels, size=(3000, 9)), axis=0).astype(kind)
        assert len(np.unique(row_numbers(rows))) == len(rows)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [3, 128, 600])
@pytest.mark.parametrize("size", [1, 17, 65, 100])
def test_an_entry_does_not_depend_on_its_neighbours(kind, dim, size):
    rows = np.random.default_rng(0).normal(size=(300, dim)).astype(kind)
    parts = [np.arange(start, min(start + size, 300)) for start in range(0, 300, size)]
    whole = product(rows, rows)
    np.testing.assert_array_equal(np.concatenate([product(rows[part], rows) for part in parts]), whole)
    np.testing.assert_array_equal(np.concatenate([product(rows, rows[part]) for part in parts], axis=1), whole)
    np.testing.assert_allclose(whole, rows.astype(np.float64) @ rows.T.astype(np.float64), atol=1e-3)


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


CODE = """
import numpy as np
from levelfield.evaluation.search.blocked_kernels import sum_steps
counts = np.zeros(1, np.int32)
sum_steps(np.array([0, 1]), np.ones(1, np.int64), counts, counts)
"""


def test_files_in_the_working_directory_choose_no_folder_for_compiled_code_and_do_not_run(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment["LEVELFIELD_CACHE"] = str(tmp_path / "cache")
    command = {"args": [sys.executable, "-c", CODE], "cwd": tmp_path, "env": environment}
    subprocess.run(**command, check=True)
    assert list((tmp_path / "cache" / "numba").rglob("*sum_steps*.nbi"))
    (tmp_path / ".numba_config.yaml").write_text(
        "cache_dir: here\ncache_locator_classes: mine.Locator\nchrome_trace: letter\ndump_html: letter\n"
    )
    (tmp_path / "mine.py").write_text("raise SystemExit('this file ran')")
    (tmp_path / "letter").write_text("mine")
    ended = subprocess.run(**command, capture_output=True, text=True)
    assert "BadInput: " in ended.stderr
    assert ".numba_config.yaml changes how numba compiles" in ended.stderr
    assert (tmp_path / "letter").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".numba_config.yaml", "cache", "letter", "mine.py"]


def test_an_evaluation_beside_settings_of_numba_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".numba_config.yaml").write_text("[")
    with pytest.raises(BadInput, match="Move that file away"):
        evaluate(np.eye(4), np.array([0, 0, 1, 1]), metrics=["recall@1"])
