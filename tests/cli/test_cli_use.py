"""`levelfield embed` and `search`: a finished run is a usable model."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from cli_room import Levelfield, make_photos

from levelfield.embedder import Model
from levelfield.reports.evaluation.embedding_set import read_image_paths


def test_embed_writes_rows_and_their_paths(levelfield: Levelfield, trained: Path) -> None:
    printed = levelfield("embed", trained, "photos", "--out", "new place/e").printed
    rows = np.load("new place/e.npy")
    paths = Path("new place/e.paths.txt").read_text().splitlines()
    assert "32 embeddings of 8 dimensions" in printed
    assert rows.shape == (32, 8)
    assert len(paths) == 32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    assert levelfield("embed", trained, paths[5], "--out", "one.npy").code == 0
    np.testing.assert_array_equal(np.load("one.npy")[0], rows[5])


def test_embed_gives_the_bits_the_run_stored(levelfield: Levelfield, trained: Path) -> None:
    levelfield("-q", "embed", trained, "photos", "--raw", "--out", "e.npy")
    stored = np.load(trained / "embeddings.npy")
    np.testing.assert_array_equal(np.load("e.npy")[-len(stored) :], stored)


def test_embed_reads_a_csv(levelfield: Levelfield, trained: Path) -> None:
    lines = [f"photos/class 0{label}/{number}.png,{label}" for label in (0, 1) for number in (0, 1)]
    Path("list.csv").write_text("path,label\n" + "\n".join(lines) + "\n")
    levelfield("-q", "embed", trained, "list.csv", "--out", "e.npy")
    assert np.load("e.npy").shape == (4, 8)


def test_an_image_is_not_its_own_neighbour(levelfield: Levelfield, trained: Path) -> None:
    query = "photos/class 03/2.png"
    content = json.loads(levelfield("search", trained, "--gallery", "photos", "--json", "-k", "40", query).printed)
    neighbours = content[query]
    assert len(neighbours) == 31
    assert query not in [entry["path"] for entry in neighbours]
    similarity = [entry["similarity"] for entry in neighbours]
    assert similarity == sorted(similarity, reverse=True)
    by_link = levelfield("search", trained, "--gallery", "photos", "./photos/../photos/class 03/2.png").printed
    assert len(by_link.splitlines()) == 6
    assert f" {query}\n" not in by_link


def test_the_gallery_is_embedded_once(levelfield: Levelfield, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embed, counts = Model.embed, []
    monkeypatch.setattr(
        Model, "embed", lambda model, images, **how: counts.append(len(images)) or embed(model, images, **how)
    )
    monkeypatch.setenv("LEVELFIELD_CACHE", "own")
    words = ("search", trained, "--gallery", "photos", "photos/class 03/2.png")
    first, again = levelfield(*words), levelfield(*words)
    assert first.printed == again.printed
    assert counts == [32, 1, 1]
    assert "embeddings of galleries (contrastive, photos)" in " ".join(levelfield("cache").printed.split())


def test_a_copy_of_the_query_under_another_name_is_found_first(levelfield: Levelfield, trained: Path) -> None:
    Path("copy.png").write_bytes(Path("photos/class 03/2.png").read_bytes())
    first = levelfield("search", trained, "--gallery", "photos", "-k", "1", "copy.png").printed.splitlines()[1]
    assert first == "  1.000  photos/class 03/2.png"


def test_a_folder_with_a_damaged_image_is_refused_by_name(levelfield: Levelfield, trained: Path) -> None:
    make_photos(Path("more"), classes=2)
    Path("more/class 01/1.png").write_bytes(Path("more/class 01/1.png").read_bytes()[:60])
    refused = levelfield("embed", trained, "more").error
    assert "class 01/1.png" in refused
    assert "--skip-unreadable" in refused
    assert not list(Path().glob("*.npy"))
    ended = levelfield("embed", trained, "more", "--skip-unreadable")
    assert "7 embeddings" in ended.printed
    assert "Skipped 1 unreadable image: more/class 01/1.png." in ended.err
    assert "more/class 01/1.png" not in Path("more.embeddings.paths.txt").read_text()


def test_nothing_that_can_be_read_is_an_error_also_when_skipping(levelfield: Levelfield, trained: Path) -> None:
    Path("bad").mkdir()
    Path("bad/1.png").write_bytes(b"no image")
    assert "None of 1 image can be read" in levelfield("embed", trained, "bad", "--skip-unreadable").error


def test_several_folders_and_files_are_embedded_in_order_each_image_once(levelfield: Levelfield, trained: Path) -> None:
    levelfield("-q", "embed", trained, "photos/class 02", "photos/class 00/1.png", "photos/class 02/0.png")
    paths = Path("embeddings.paths.txt").read_text().splitlines()
    assert paths == [f"photos/class 02/{number}.png" for number in range(4)] + ["photos/class 00/1.png"]
    assert np.load("embeddings.npy").shape == (5, 8)


def test_without_a_name_the_file_is_named_after_what_is_embedded(levelfield: Levelfield, trained: Path) -> None:
    assert "class 00.embeddings.npy" in levelfield("embed", trained, "photos/class 00/").printed
    assert Path("class 00.embeddings.paths.txt").exists()


def test_an_existing_file_is_replaced_only_by_force(levelfield: Levelfield, trained: Path) -> None:
    Path("e.paths.txt").write_text("mine")
    assert "e.paths.txt already exists" in levelfield("embed", trained, "photos", "--out", "e.npy").error
    assert Path("e.paths.txt").read_text() == "mine"
    assert not Path("e.npy").exists()
    levelfield("-q", "embed", trained, "photos", "--out", "e.npy", "--force")
    assert len(Path("e.paths.txt").read_text().splitlines()) == 32


def test_a_csv_has_a_path_and_the_exact_numbers_in_each_line(levelfield: Levelfield, trained: Path) -> None:
    Path("a,b.png").write_bytes(Path("photos/class 00/0.png").read_bytes())
    levelfield("-q", "embed", trained, "photos", "a,b.png", "--out", "f.csv")
    levelfield("-q", "embed", trained, "photos", "a,b.png", "--out", "f.npy")
    with Path("f.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["path", *map(str, range(8))]
    assert [line[0] for line in lines] == Path("f.paths.txt").read_text().splitlines()
    np.testing.assert_array_equal(np.array([line[1:] for line in lines], dtype=np.float32), np.load("f.npy"))
    assert not Path("f.csv.npy").exists()


@pytest.mark.parametrize("name", ["a\rb.png", "a\nb.png"])
def test_a_name_with_a_line_break_is_kept_by_a_csv_alone(levelfield: Levelfield, trained: Path, name: str) -> None:
    Path("odd").mkdir()
    Path("odd", name).write_bytes(Path("photos/class 00/0.png").read_bytes())
    assert "use --out FILE.csv" in levelfield("embed", trained, "odd", "--out", "f.npy").error
    levelfield("-q", "embed", trained, "odd", "--out", "f.csv")
    assert read_image_paths(Path("f.csv"), 1, 0) == [Path("odd", name)]


@pytest.mark.parametrize("name", ["e.txt", "e.npz", "e.parquet"])
def test_another_kind_of_file_is_refused_with_one_that_works(levelfield: Levelfield, trained: Path, name: str) -> None:
    assert "Did you mean e.npy?" in levelfield("embed", trained, "photos", "--out", name).error


def test_an_output_that_cannot_be_written_is_one_message(levelfield: Levelfield, trained: Path) -> None:
    Path("file").touch()
    assert "Cannot write" in levelfield("embed", trained, "photos/class 00", "--out", "file/e.npy").error
