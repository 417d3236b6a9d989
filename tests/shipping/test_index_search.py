"""Search in an index: exact against sorting, approximate with its measured loss, binary codes, and without torch."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from shipped import DIM, made_model, photos, shipped

from levelfield.embedder import save_model
from levelfield.errors import BadInput, Damaged
from levelfield.shipping import Index, add_to_index, build_index
from levelfield.shipping.index import exact
from levelfield.shipping.index.approximate import lost, open_graph, write_graph
from levelfield.shipping.index.exact import BINARY, FLOAT, Stored, nearest, packed


def made_rows(count: int, dim: int = 16, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("codes", [FLOAT, BINARY])
@pytest.mark.parametrize("k", [1, 7, 700, 5000])
def test_exact_search_is_sorting(codes: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_QUERIES", 5)
    monkeypatch.setattr(exact, "_ENTRIES", 10_000)
    rows = made_rows(3000, dim=20)
    rows[2000:2010] = rows[17]  # equal rows come in the order of the index
    stored = Stored(packed(rows, codes), 20, codes)
    queries = np.concatenate([stored.part(np.array([17, 5])), made_rows(12, dim=20, seed=1)])
    if codes == BINARY:
        queries = np.where(queries > 0, 1, -1).astype(np.float32) / np.float32(np.sqrt(20))
    positions, cosines = nearest(stored, queries, k)
    product = queries.astype(np.float64) @ stored.part(slice(None)).astype(np.float64).T
    expected = np.argsort(-np.round(product, 6), axis=1, kind="stable")[:, :k]
    np.testing.assert_allclose(cosines, np.take_along_axis(product, expected, axis=1), atol=2e-6)
    assert positions.shape == (14, min(k, 3000))
    assert positions[0, :7].tolist()[: min(k, 7)] == [17, *range(2000, 2006)][: min(k, 7)] or codes == BINARY
    assert all(len(set(line)) == len(line) for line in positions.tolist())


def test_of_equal_similarities_the_first_rows_are_found() -> None:
    rows = np.tile(np.float32([[1, 0]]), (1500, 1))
    rows[[1, 700]] = [[0, 1]]
    positions, _ = nearest(Stored(rows, 2, FLOAT), np.float32([[1, 0], [0, 1]]), 3)
    assert positions.tolist() == [[0, 2, 3], [1, 700, 0]]


def test_no_query_and_no_row_are_no_result() -> None:
    assert nearest(Stored(made_rows(3), 16, FLOAT), made_rows(0), 2)[0].shape == (0, 2)
    assert nearest(Stored(made_rows(0), 16, FLOAT), made_rows(2), 2)[0].shape == (2, 0)


@pytest.mark.parametrize("library", ["usearch", "faiss"])
@pytest.mark.parametrize("codes", [FLOAT, BINARY])
def test_an_approximate_search_finds_nearly_all_and_says_how_many(library: str, codes: str, tmp_path: Path) -> None:
    stored = Stored(packed(made_rows(1500, dim=20), codes), 20, codes)
    write_graph(library, stored, tmp_path / "graph")
    search = open_graph(library, stored, tmp_path / "graph")
    told = lost(search, stored)
    assert told["queries"] == 1000
    assert told["recall@10"] > 0.9
    assert told["recall@1"] > 0.9

    def half(queries: np.ndarray, k: int) -> np.ndarray:
        found = search(queries, k)
        found[::2] = -1  # finds nothing for every other query
        return found

    assert lost(half, stored)["recall@10"] == pytest.approx(told["recall@10"] / 2, abs=0.05)
    with pytest.raises(Damaged, match="has 1,500 rows, but the index has 1,499"):
        open_graph(library, replace(stored, values=stored.values[1:]), tmp_path / "graph")
    (tmp_path / "graph").write_bytes(b"no graph")
    with pytest.raises(Damaged, match=f"cannot be opened by {library}"):
        open_graph(library, stored, tmp_path / "graph")


@pytest.mark.parametrize("library", ["usearch", "faiss"])
@pytest.mark.parametrize("codes", [FLOAT, BINARY])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's full device")
def test_a_graph_that_cannot_be_written_is_one_message(library: str, codes: str) -> None:
    stored = Stored(packed(made_rows(50), codes), 16, codes)
    said = "No space left on device" if library == "faiss" else "Failed to serialize into stream"
    with pytest.raises(BadInput, match=rf"Cannot write /dev/full: .*{said}.* free some space"):
        write_graph(library, stored, Path("/dev/full"))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("cache")
def test_binary_codes_are_stored_as_bits(tmp_path: Path) -> None:
    model = made_model(codes=BINARY)
    save_model(tmp_path / "run", model.embedder, {**model.view.description, "method": "made"})
    photos(tmp_path / "photos", 6)
    index = build_index(tmp_path / "run", [tmp_path / "photos"], tmp_path / "index")
    assert index.content.stored.values.dtype == np.uint8
    np.testing.assert_allclose(index.rows, model.embed(index.paths), atol=1e-6)
    assert set(index.classes) == {""}
    positions, cosines = index.search(index.rows[2:3], 6)
    np.testing.assert_allclose(cosines[0], np.sort(index.rows @ index.rows[2])[::-1], atol=1e-6)
    assert cosines[0, 0] == 1
    assert 2 in positions[0]


@pytest.mark.usefixtures("cache")
def test_an_exported_model_is_used_without_torch(tmp_path: Path) -> None:
    shipped(made_model(), tmp_path / "exported")
    photos(tmp_path / "photos", 5)
    script = """
import contextlib, io, sys
from levelfield.cli import main
printed = io.StringIO()
for words in (
    "index exported/model.onnx photos --out graph --approximate usearch", "search graph photos/0.png",
    "index exported photos --out index", "index index --add photos", "search index photos/0.png",
    "embed exported photos --out e.npy", "search exported/model.onnx --gallery photos photos/0.png",
):
    with contextlib.redirect_stdout(printed):
        try:
            main(words.split())
        except SystemExit as end:
            assert end.code == 0, words
assert printed.getvalue().count("Nearest to photos/0.png") == 3
import levelfield
levelfield.load("exported").embed("photos/1.png")
heavy = ("torch", "torchvision", "timm", "scipy", "sklearn", "numba", "matplotlib", "onnx", "faiss")
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, env={**os.environ}
    )
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
    index = Index.open(tmp_path / "index")
    for rows in (index.rows, np.load(tmp_path / "e.npy")):
        np.testing.assert_allclose(rows, made_model().embed(index.paths), atol=1e-6)
    assert index.rows.shape == (5, DIM)
    assert add_to_index(tmp_path / "index", [tmp_path / "photos"]).known == 5


@pytest.mark.usefixtures("cache")
def test_a_graph_of_usearch_can_be_searched_before_an_exported_model_is_loaded(tmp_path: Path) -> None:
    shipped(made_model(), tmp_path / "exported")
    photos(tmp_path / "photos", 3)
    build_index(tmp_path / "exported", [tmp_path / "photos"], tmp_path / "index", approximate="usearch")
    script = """
from levelfield.shipping import Index
index = Index.open("index")
print(index.search(index.rows[1:2], 1)[0], index.model().dim)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout.strip(), done.returncode) == (f"[[1]] {DIM}", 0), done.stderr
