"""`levelfield index` and `levelfield search INDEX`: built, extended, searched, and refused in one message."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from cli_room import Levelfield, make_photos
from PIL import Image

from levelfield.files.writing import default_cache_folder
from levelfield.shipping import Index, add_to_index
from levelfield.shipping.index.folder import INDEX
from levelfield.shipping.searching import remembered

QUERY = "photos/class 03/2.png"


def files(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.name != ".lock"}


def left_behind() -> list[str]:
    return [path.name for path in Path().iterdir() if path.name.startswith(".")]


def change(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(bytes(content))


@pytest.fixture
def index(levelfield: Levelfield, trained: Path) -> Path:
    levelfield("-q", "index", trained, "photos", "--out", "index")
    return Path("index")


def test_an_index_holds_the_rows_that_embed_gives(levelfield: Levelfield, trained: Path) -> None:
    ended = levelfield("index", trained, "photos", "--out", "new/index")
    assert "new/index: 32 images of 8 classes, 8 dimensions." in ended.printed
    assert "has no validation classes" in ended.err
    result = Index.open("new/index")
    levelfield("-q", "embed", trained, "photos", "--out", "e.npy")
    np.testing.assert_array_equal(result.rows, np.load("e.npy"))
    assert [str(path) for path in result.paths] == Path("e.paths.txt").read_text().splitlines()
    assert result.classes == [path.parent.name for path in result.paths]
    assert (len(result), result.threshold) == (32, None)
    assert left_behind() == []


def test_search_finds_what_search_in_the_folder_finds(levelfield: Levelfield, trained: Path, index: Path) -> None:
    words = ("--json", "-k", "40", QUERY, "photos/class 00/1.png")
    ours = json.loads(levelfield("search", index, *words).printed)
    theirs = json.loads(levelfield("search", trained, "--gallery", "photos", *words).printed)
    for query in theirs:
        assert len(ours[query]) == 31  # an image is not its own neighbour
        assert [entry["path"] for entry in ours[query]] == [entry["path"] for entry in theirs[query]]
        near = [entry["similarity"] for entry in ours[query]], [entry["similarity"] for entry in theirs[query]]
        np.testing.assert_allclose(*near, atol=1.1e-4)
        assert all(entry["class"] == Path(entry["path"]).parent.name for entry in ours[query])
        assert {entry["same"] for entry in ours[query]} == {None}
    assert len(levelfield("search", index, QUERY).printed.splitlines()) == 6


def test_a_threshold_says_what_is_the_same_and_how_often_unknowns_match(levelfield: Levelfield, trained: Path) -> None:
    printed = levelfield("index", trained, "photos", "--out", "index", "--choose-on", "training").printed
    assert "chosen on training classes" in printed
    assert "of 16 test images of 4 classes, each searched among the 16 images, its own class left out" in printed
    content = json.loads((Path("index") / INDEX).read_text())
    assert content["unknowns"]["images"] == 16
    value = content["threshold"]["value"]
    results = json.loads(levelfield("search", "index", "--json", "-k", "31", QUERY).printed)[QUERY]
    assert {entry["same"] for entry in results} == {True, False}
    assert all(
        entry["same"] == (entry["similarity"] >= value) for entry in results if abs(entry["similarity"] - value) > 1e-4
    )
    lines = levelfield("search", "index", "-k", "31", QUERY).printed.splitlines()
    assert sum("  same  " in line for line in lines) == sum(entry["same"] for entry in results)
    assert "No image of its class" not in lines[-1]


def test_an_image_below_the_threshold_has_no_match(levelfield: Levelfield, trained: Path) -> None:
    levelfield("-q", "index", trained, "photos/class 00", "--out", "index", "--choose-on", "training")
    Image.fromarray(np.arange(3072, dtype=np.uint8).reshape(32, 32, 3)).save("odd.png")
    printed = levelfield("search", "index", "odd.png").printed
    near = json.loads(levelfield("search", "index", "odd.png", "--json").printed)["odd.png"]
    assert ("No image of its class: the nearest is below" in printed) == (not any(entry["same"] for entry in near))


def test_added_photos_give_the_files_of_a_new_index(levelfield: Levelfield, trained: Path, index: Path) -> None:
    before = Index.open(index)
    make_photos(Path("drawn"), classes=2, each=3)
    shutil.move("drawn/class 01", "photos/a new class")
    (Path("photos/class 02") / "9.png").write_bytes(Path("drawn/class 00/1.png").read_bytes())
    shutil.copy("drawn/class 00/2.png", "photos/class 05/0.png")  # another image under a known name
    printed = levelfield("index", index, "--add", "photos").printed
    assert "4 new images, 1 changed image embedded again, 31 already there. Now 36 of 9 classes" in printed
    levelfield("-q", "index", trained, "photos", "--out", "anew")
    assert files("index") == files("anew")
    assert len(before) == 32
    shutil.copy("photos/a new class/0.png", "query.png")
    [near] = json.loads(levelfield("search", index, "-k", "1", "--json", "query.png").printed)["query.png"]
    assert (near["path"], near["class"]) == ("photos/a new class/0.png", "a new class")


def test_a_folder_inside_a_known_one_and_another_folder_can_be_added(levelfield: Levelfield, trained: Path) -> None:
    make_photos(Path("more"), classes=2)
    shutil.move("photos/class 07", "kept")
    levelfield("-q", "index", trained, "photos", "--out", "index")
    shutil.move("kept", "photos/class 07")
    levelfield("-q", "index", trained, "--out", "index", "--add", "photos/class 07", "--add", "more")
    levelfield("-q", "index", trained, "photos", "more", "--out", "anew")
    assert files("index") == files("anew")
    assert "0 new images, 40 already there" in levelfield("index", "index", "--add", "photos", "--add", "more").printed
    assert files("index") == files("anew")


def test_linked_photos_and_folders_keep_their_own_names(levelfield: Levelfield, trained: Path) -> None:
    shutil.move("photos/class 06", "class 06")
    shutil.move("photos/class 07/0.png", "kept.png")
    Path("photos/linked class").symlink_to(Path("class 06").resolve())
    Path("photos/class 07/linked.png").symlink_to(Path("kept.png").resolve())
    Path("photos/class 00/same.png").symlink_to("1.png")
    Path("link").symlink_to("photos")
    assert "33 images of 8 classes" in levelfield("index", trained, "link", "--out", "index").printed
    result = Index.open("index")
    assert result.classes.count("linked class") == 4
    names = ("linked class/0.png", "class 07/linked.png", "class 00/1.png", "class 00/same.png")
    assert {Path("photos") / name for name in names} <= set(result.paths)
    assert "0 new images, 33 already there" in levelfield("index", "index", "--add", "photos").printed


def test_photos_added_by_two_processes_are_all_there(
    trained: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_photos(Path("more"), classes=2)
    other = Thread(target=add_to_index, args=[index, ["more/class 01"]])

    def meanwhile(*given: Any, **how: Any) -> Any:
        if other.ident is None:
            other.start()
            other.join(timeout=0.5)  # without the lock it would end here, and its photos would be lost
        return remembered(*given, **how)

    monkeypatch.setattr("levelfield.shipping.index.index.remembered", meanwhile)
    add_to_index(index, ["more/class 00"])
    other.join()
    assert len(Index.open(index)) == 40


@pytest.mark.parametrize("library", ["usearch", "faiss"])
def test_an_approximate_index_says_what_it_loses(
    levelfield: Levelfield, trained: Path, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(Path("cache").absolute()))
    printed = levelfield("index", trained, "photos", "--out", "index", "--approximate", library).printed
    assert f"Approximate search ({library}) against exact: recall@1 1.0000, recall@10 1.0000" in printed
    content = json.loads((Path("index") / INDEX).read_text())["approximate"]
    assert content == {"library": library, "queries": 32, "recall@1": 1.0, "recall@10": 1.0}
    levelfield("-q", "index", trained, "photos", "--out", "exact")
    words = ("-k", "8", QUERY)
    assert levelfield("search", "index", *words).printed == levelfield("search", "exact", *words).printed
    make_photos(Path("more"), classes=2)
    assert "Now 40 of" in levelfield("index", "index", "--add", "more").printed
    assert json.loads((Path("index") / INDEX).read_text())["approximate"]["queries"] == 40
    assert sorted(Path(name).suffix for name in files("index")) == [".csv", ".json", ".npy"]
    assert len(list((default_cache_folder() / "graphs").glob(f"*.{library}"))) == 1  # that of the earlier rows is gone


def test_an_unreadable_image_is_named_and_skipped_only_if_asked(levelfield: Levelfield, trained: Path) -> None:
    Path("photos/class 01/1.png").write_bytes(b"no image")
    message = levelfield("index", trained, "photos", "--out", "index").error
    assert "class 01/1.png" in message
    assert "--skip-unreadable" in message
    assert not Path("index").exists()
    ended = levelfield("index", trained, "photos", "--out", "index", "--skip-unreadable")
    assert "Skipped 1 unreadable image: photos/class 01/1.png." in ended.err
    assert "31 images" in ended.printed
    Path("photos/class 01/2.png").write_bytes(b"no image")
    assert "0 new images, 30 already" in levelfield("index", "index", "--add", "photos", "--skip-unreadable").printed
    assert len(Index.open("index")) == 31  # nothing is removed
    assert left_behind() == []


def test_an_existing_index_is_replaced_only_by_force(levelfield: Levelfield, trained: Path, index: Path) -> None:
    before = files("index")
    (index / "notes.txt").write_text("mine")
    assert "already exists. Add photos with --add" in levelfield("index", trained, "photos", "--out", index).error
    levelfield("-q", "index", trained, "photos/class 00", "--out", index, "--force")
    after = files("index")
    assert after.pop("notes.txt") == b"mine"
    assert len(Index.open(index)) == 4
    assert len(after) == len(before)
    assert not (set(after) & set(before)) - {INDEX}


@pytest.mark.parametrize("content", ["", '{"format": 1}', "no json"])
def test_a_damaged_index_is_replaced_by_force(levelfield: Levelfield, trained: Path, index: Path, content: str) -> None:
    whole = files("index")
    (index / INDEX).write_text(content)
    (index / "rows-mine.npy").write_text("mine")
    levelfield("-q", "index", trained, "photos/class 00", "--out", index, "--force")
    assert files("index").pop("rows-mine.npy") == b"mine"
    assert len(files("index")) == len(whole) + 1
    assert len(Index.open(index)) == 4


@pytest.mark.skipif(
    not Path("/dev/shm").is_dir() or Path("/dev/shm").stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev,
    reason="needs a second file system",
)
def test_the_folder_of_an_index_may_be_on_another_file_system(levelfield: Levelfield, trained: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        Path("index").symlink_to(other)
        levelfield("-q", "index", trained, "photos", "--out", "index", "--approximate", "faiss")
        assert len(Index.open("index")) == 32
        assert left_behind() == []


def test_what_a_killed_command_left_is_removed(levelfield: Levelfield, trained: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    machine = socket.gethostname()
    for name in (f".index.{machine}~{ended.pid}~0.tmp", f".index.other~{ended.pid}~0.tmp", ".index.mine"):
        Path("index", name, "inside").mkdir(parents=True)
    levelfield("-q", "index", trained, "photos/class 00", "--out", "index")
    assert sorted(path.name for path in Path("index").iterdir() if path.is_dir()) == [
        ".index.mine",
        f".index.other~{ended.pid}~0.tmp",
    ]


def test_an_index_of_another_run_is_refused(levelfield: Levelfield, compared: Path, index: Path) -> None:
    other = next((compared / "runs/small/normalized_softmax").glob("seed0-*"))
    for words in (["search", index, "--model", other, QUERY], ["index", other, "--add", "photos", "--out", index]):
        message = levelfield(*words).error
        assert "The index index was made with another model (contrastive photos) than" in message


def test_a_moved_model_is_asked_for(levelfield: Levelfield, trained: Path, index: Path) -> None:
    shutil.move(trained, "moved")
    assert "is no longer at runs/small/contrastive/seed0-" in levelfield("search", index, QUERY).error
    assert "Nearest to" in levelfield("search", index, "--model", "moved", QUERY).printed
    assert "levelfield index RUN --add FOLDER --out index" in levelfield("index", index, "--add", "photos").error
    levelfield("-q", "index", "moved", "--add", "photos", "--out", index)
    assert "Nearest to" in levelfield("search", index, QUERY).printed  # it knows the new place
    shutil.move("moved", trained)
    levelfield("-q", "index", trained, "--add", "photos", "--out", index)
    Path("elsewhere").mkdir()
    for name in ("index", "runs", "photos"):
        shutil.move(name, f"elsewhere/{name}")  # moved together: nothing is lost
    assert "elsewhere/photos/class 03/" in levelfield("search", "elsewhere/index", f"elsewhere/{QUERY}").printed


@pytest.mark.parametrize("kind", ["rows", "items", "index"])
def test_a_changed_file_is_refused(levelfield: Levelfield, index: Path, kind: str) -> None:
    [path] = index.glob(f"{kind}*")
    if kind == "index":
        path.write_text(path.read_text().replace('"threshold": null', '"threshold": {"value": 0.1}'))
    else:
        change(path)
    assert f"{path} was changed" in levelfield("search", index, QUERY).error
    path.unlink()
    assert "is missing" in levelfield("search", index, QUERY).error or kind == "index"


def test_a_graph_is_never_taken_from_the_folder_of_an_index(
    levelfield: Levelfield, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """usearch crashes on changed bytes, so that graphs stay in the user's own cache."""
    monkeypatch.setenv("LEVELFIELD_CACHE", str(Path("cache").absolute()))
    levelfield("-q", "index", trained, "photos", "--out", "index", "--approximate", "usearch")
    words = ("search", "index", QUERY)
    expected = levelfield(*words).printed
    [graph] = (default_cache_folder() / "graphs").glob("*.usearch")
    graph.unlink()  # as on another machine
    assert levelfield(*words).printed == expected
    assert graph.is_file()
    graph.write_bytes(b"no graph")
    ended = levelfield(*words)
    assert ended.printed == expected
    assert "It is built again" in ended.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["index", "RUN", "empty", "--out", "new"], "No images found under empty"),
        (["index", "RUN", "gone", "--out", "new"], "File or folder not found: gone"),
        (["index", "RUN", "small.yaml", "--out", "new"], "small.yaml is a file, not a folder"),
        (["index", "RUN", "photos"], "the folder of the index with --out"),
        (["index", "RUN", "photos", "--out", "RUN"], "is the folder of a run, study or model"),
        (["index", "RUN", "photos", "--out", "small.yaml"], "--out small.yaml is a file"),
        (["index", "RUN", "photos", "--out", "new", "--approximate", "fais"], "Did you mean 'faiss'?"),
        (["index", "RUN", "photos", "--out", "new", "--choose-on", "test"], "must be validation or training"),
        (["index", "RUN", "--add", "photos", "--out", "new", "--choose-on", "test"], "must be validation or training"),
        (["index", "RUN", "--add", "photos", "--out", "new"], "new is not an index"),
        (["index", "RUN", "photos", "--add", "photos", "--out", "new"], "To add photos:"),
        (["index", "photos", "photos", "--out", "new"], "contains no trained model"),
        (["search", "RUN", QUERY], "Name the photos to search with --gallery FOLDER, or make an index"),
        (["search", "RUN", "--gallery", "photos", "--model", "RUN", QUERY], "--model belongs to an index"),
        (["search", "RUN", "--gallery", "photos", "gone.png"], "not found: gone.png"),
        (["search", "RUN", "--gallery", "empty", QUERY], "No images found under empty"),
        (["embed", "RUN", "gone"], "not found: gone"),
        (["embed", "photos", "photos"], "contains no trained model"),
        (["embed", "RUN", "small.yaml"], "small.yaml"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_message(
    levelfield: Levelfield, trained: Path, words: list[str], message: str
) -> None:
    Path("empty").mkdir()
    assert message in levelfield(*[trained if word == "RUN" else word for word in words]).error
    assert not [*Path().glob("new"), *Path().glob("*.npy")]
    assert left_behind() == []


def test_photos_that_were_deleted_are_named(levelfield: Levelfield, index: Path) -> None:
    shutil.copy(QUERY, "query.png")
    Path(QUERY).unlink()
    ended = levelfield("search", index, "--json", "-k", "2", "query.png")
    assert [entry["exists"] for entry in json.loads(ended.printed)["query.png"]] == [False, True]
    assert "1 of these photos no longer exists. Make the index again with --force." in ended.err
    assert "no longer" not in levelfield("-q", "index", index, "--add", "photos").err
    assert "1 of the photos of the index no longer exists." in levelfield("index", index, "--add", "photos").err


def test_an_index_of_the_query_alone_has_no_nearest_image(levelfield: Levelfield, trained: Path) -> None:
    Path("one").mkdir()
    shutil.copy(QUERY, "one/:smile:.png")
    levelfield("-q", "index", trained, "one", "--out", "index", "--choose-on", "training")
    printed = levelfield("search", "index", "one/:smile:.png").printed
    assert printed == "Nearest to one/:smile:.png:\n  No other image is there to search.\n"


def test_an_index_is_no_run_and_needs_no_gallery(levelfield: Levelfield, index: Path) -> None:
    assert "leave out --gallery" in levelfield("search", index, "--gallery", "photos", QUERY).error
    assert "is an index. Add photos" in levelfield("index", index, "photos", "--out", "new").error


@pytest.mark.parametrize("library", ["usearch", "faiss"])
def test_a_missing_library_is_named_with_its_extra(
    levelfield: Levelfield, trained: Path, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    levelfield("-q", "index", trained, "photos", "--out", "index", "--approximate", library)
    for name in (library, f"{library}.index"):
        monkeypatch.setitem(sys.modules, name, None)
    for words in (["index", trained, "photos", "--out", "new", "--approximate", library], ["search", "index", QUERY]):
        assert f'pip install "levelfield[{library}]"' in levelfield(*words).error
    assert not Path("new").exists()
