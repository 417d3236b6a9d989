"""`levelfield evaluate`: scores of runs and of any arrays, as tables, JSON and CSV; refusals in one message."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from cli_room import Levelfield

from levelfield import evaluate
from levelfield.cli.console import error_console

ARRAYS = ["--embeddings", "e.npy", "--labels", "y.npy"]


def read(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_run_repeats_its_figures_and_trains_nothing(levelfield: Levelfield, trained: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    stored = json.loads((trained / "metrics.json").read_text())["values"]
    content = json.loads(levelfield("evaluate", trained, "--metrics", "recall@1,map@r", "--json").printed)
    assert {name: entry["value"] for name, entry in content["metrics"].items()} == stored
    assert content["metrics"]["map@r"]["signature"].startswith("map@r|self:id|")
    assert f"{stored['map@r']:.4f}" in levelfield("evaluate", trained).printed
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


def test_arrays_give_what_python_gives(levelfield: Levelfield, arrays: Path) -> None:
    words = ["--k", "1,3", "--average", "class", "--ties", "pessimistic", "--lone", "miss", "--ci", "0.8"]
    content = json.loads(levelfield("evaluate", *ARRAYS, *words, "--seed", "3", "--memory", "1GB", "--json").printed)
    result = evaluate(
        np.load("e.npy"), np.load("y.npy"), k=(1, 3), average="class", ties="pessimistic", lone="miss", ci=0.8, seed=3
    )
    assert list(content["metrics"]) == list(result)
    for name, entry in content["metrics"].items():
        assert entry["value"] == result[name]
        assert entry["signature"] == str(result.signature(name))
        assert entry["interval"]["classes"] == [result.intervals[name].low, result.intervals[name].high]
        assert entry["interval"]["level"] == 0.8


def test_the_screen_says_what_was_measured(levelfield: Levelfield, arrays: Path) -> None:
    printed = levelfield("evaluate", *ARRAYS, "--metrics", "recall@1,nmi").printed
    assert "95 % over classes" in printed
    assert "50 queries of 10 classes, cosine, 8 dimensions." in printed
    assert re.search(r"nmi +0\.\d{4} ± 0\.\d{4}", printed)
    assert "recall@1|self" not in printed
    assert "recall@1|self:id" in levelfield("evaluate", *ARRAYS, "--metrics", "recall@1", "--signatures").printed
    assert "over classes" not in levelfield("evaluate", *ARRAYS, "--ci", "0").printed


def test_text_labels_and_lone_queries(levelfield: Levelfield, arrays: Path) -> None:
    np.save("e.npy", np.eye(3)[[0, 0, 1, 1, 2]])
    np.save("y.npy", np.array(["a", "a", "b", "b", "c"]))
    printed = levelfield("evaluate", *ARRAYS, "--metrics", "recall@1").printed
    assert "1.0000" in printed
    assert "1 of them has no positive and does not count" in printed
    assert "counts as 0" in levelfield("evaluate", *ARRAYS, "--metrics", "recall@1", "--lone", "miss").printed


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("y.txt", "cat\ncat\n dog \ndog\n"),
        ("y.csv", "label\ncat\ncat\ndog\ndog\n"),
        ("y.csv", "cat\ncat\ndog\ndog\n"),
        ("y.csv", '\ufeffpath,class\n"a,b",cat\nb,cat\nc,dog\nd,dog\n'),
        ("y.txt", "7\n7\n8\n8"),
        ("y.txt", "9223372036854775808\n9223372036854775808\nx\nx\r\n"),
    ],
)
def test_labels_may_be_text_files_and_tables(levelfield: Levelfield, arrays: Path, name: str, text: str) -> None:
    np.save("e.npy", [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    Path(name).write_text(text, encoding="utf-8")
    words = ["--embeddings", "e.npy", "--labels", name, "--metrics", "map", "--json", "--per-class", "c.csv"]
    assert json.loads(levelfield("evaluate", *words).printed)["metrics"]["map"]["value"] == 1
    assert [int(line["queries"]) for line in read("c.csv")] == [2, 2]


def test_dimensions_and_bits_are_rows_of_one_table(levelfield: Levelfield, arrays: Path) -> None:
    words = ["--dim", "2,8", "--distance", "cosine", "--binary", "--metrics", "recall@1"]
    lines = levelfield("evaluate", *ARRAYS, *words).printed.splitlines()
    shown = [line.split()[:3] for line in lines if re.match(" *(cosine|hamming) ", line)]
    assert shown == [["cosine", "2", "8"], ["cosine", "8", "32"], ["hamming", "2", "1"], ["hamming", "8", "1"]]
    content = json.loads(levelfield("evaluate", *ARRAYS, *words, "--json").printed)
    rows, labels = np.load("e.npy"), np.load("y.npy")
    for entry in content:
        right = evaluate(rows, labels, metrics=["recall@1"], dim=entry["dim"], distance=entry["distance"])
        assert entry["metrics"]["recall@1"]["value"] == right["recall@1"]
    alone = json.loads(levelfield("evaluate", *ARRAYS, "--binary", "--metrics", "recall@1", "--json").printed)
    assert alone["distance"] == "hamming"


def test_binary_codes_of_a_run_have_one_bit_whatever_the_distance(levelfield: Levelfield, room: Path) -> None:
    words = ["seeds=1", "methods=[contrastive]", "conditions.codes=binary"]
    assert levelfield("-q", "compare", "small.yaml", *words).code == 0
    run = next(Path("runs/small/contrastive").glob("seed0-*"))
    stored = json.loads((run / "metrics.json").read_text())["signatures"]["recall@1"]["representation"]
    asked = ["evaluate", run, "--metrics", "recall@1", "--json"]
    for result in json.loads(levelfield(*asked, "--distance", "cosine,hamming").printed):
        assert f"|bits:{stored['bits']}|" in result["metrics"]["recall@1"]["signature"]
        assert "|bits:1|" in result["metrics"]["recall@1"]["signature"]
        assert result["bytes"] == 1  # 8 numbers
    corrupted = levelfield("corrupt", run, "--only", "jpeg", "--metrics", "recall@1", "--json").printed
    assert "|bits:1|" in json.loads(corrupted)["signatures"]["recall@1"]
    np.save("y.npy", np.arange(len(np.load(run / "embeddings.npy"))) // 4)
    arrays = ["--embeddings", run / "embeddings.npy", "--labels", "y.npy", "--metrics", "recall@1", "--json"]
    assert json.loads(levelfield("evaluate", *arrays).printed)["bytes"] == 32


def test_a_gallery_is_searched(levelfield: Levelfield, arrays: Path) -> None:
    np.save("ids.npy", np.arange(50))
    words = ["--gallery", "e.npy", "--gallery-labels", "y.npy", "--metrics", "map@r", "--json"]
    itself = json.loads(levelfield("evaluate", *ARRAYS, "--metrics", "map@r", "--json").printed)
    same = json.loads(levelfield("evaluate", *ARRAYS, *words, "--query-ids", "ids.npy").printed)
    assert same["metrics"] == itself["metrics"]
    content = json.loads(levelfield("evaluate", *ARRAYS, *words).printed)
    assert content["metrics"]["map@r"]["value"] > itself["metrics"]["map@r"]["value"]


def test_values_per_class_and_per_query_are_written(levelfield: Levelfield, arrays: Path) -> None:
    words = ["--metrics", "map,nmi", "--per-class", "new/c.csv", "--per-query", "q.csv", "--out", "o.json", "--json"]
    printed = levelfield("evaluate", *ARRAYS, *words).printed
    result = evaluate(np.load("e.npy"), np.load("y.npy"), metrics=["map"])
    assert [float(line["map"]) for line in read("q.csv")] == result.per_query["map"].tolist()
    assert [line["label"] for line in read("q.csv")] == [str(label) for label in np.load("y.npy")]
    assert [float(line["map"]) for line in read("new/c.csv")] == result.per_class("map").means.tolist()
    assert Path("o.json").read_text() == printed
    both = levelfield("evaluate", *ARRAYS, "--metrics", "map", "--dim", "4,8", "--per-class", "c.csv")
    assert both.code == 0
    assert [line["dim"] for line in read("c.csv")] == ["4"] * 10 + ["8"] * 10


def test_the_nearest_rows_of_every_query_are_written(levelfield: Levelfield, arrays: Path) -> None:
    words = ["--metrics", "recall@1", "--neighbours", "n.csv", "--nearest", "3"]
    assert levelfield("evaluate", *ARRAYS, *words).code == 0
    lines, labels = read("n.csv"), np.load("y.npy")
    near = evaluate(np.load("e.npy"), labels).neighbours(3)
    assert [int(line["neighbour"]) for line in lines] == near.positions.ravel().tolist()
    assert [float(line["similarity"]) for line in lines] == near.similarities.ravel().tolist()
    assert [(int(line["row"]), int(line["rank"])) for line in lines[:4]] == [(0, 1), (0, 2), (0, 3), (1, 1)]
    same = labels[near.positions] == labels[:, None]
    assert [line["same"] == "1" for line in lines] == same.ravel().tolist()


def test_a_run_names_its_images_and_classes(levelfield: Levelfield, trained: Path) -> None:
    words = ["--per-query", "q.csv", "--per-class", "c.csv", "--neighbours", "n.csv", "--nearest", "1"]
    assert levelfield("evaluate", trained, *words).code == 0
    assert read("q.csv")[0]["path"].endswith("class 04/0.png")
    assert read("n.csv")[0]["path"].endswith("class 04/0.png")
    assert Path(read("n.csv")[0]["neighbour_path"]).suffix == ".png"
    assert [line["class"] for line in read("c.csv")] == ["class 04", "class 05", "class 06", "class 07"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["photos"], "not a finished run"),
        ([], "Give a run folder"),
        (["RUN", "--labels", "y.npy"], "Give a run folder, or"),
        (["RUN", "--gallery", "e.npy"], "need --embeddings"),
        (["--embeddings", "e.npy"], "must be given together"),
        (["--labels", "y.npy"], "must be given together"),
        (["--embeddings", "gone.npy", "--labels", "y.npy"], "File not found: gone.npy"),
        (["--embeddings", "small.yaml", "--labels", "y.npy"], "small.yaml is not a valid .npy file"),
        (["--embeddings", "blank.npy", "--labels", "y.npy"], "blank.npy is empty"),
        (["--embeddings", "none.npy", "--labels", "y.npy"], "embeddings is empty (shape (0, 8))"),
        (["--embeddings", "both.npz", "--labels", "y.npy"], "both.npz holds 2 arrays (a, b) instead of one"),
        (["--embeddings", "e.npy", "--labels", "objects.npy"], "contains Python objects, which are not loaded"),
        (["--embeddings", "e.npy", "--labels", "gone.txt"], "File not found: gone.txt"),
        (["--embeddings", "e.npy", "--labels", "two.csv"], "one of them must be called label or class"),
        (["--embeddings", "e.npy", "--labels", "hole.txt"], "hole.txt has no label in row 1"),
        (["--embeddings", "e.npy", "--labels", "empty.txt"], "empty.txt has no labels"),
        (["--embeddings", "y.npy", "--labels", "y.npy"], "shape (12,)"),
        (["--embeddings", "e.npy", "--labels", "real.npy"], "expected integers"),
        ([*ARRAYS, "--metrics", ","], "--metrics is empty"),
        ([*ARRAYS, "--dim", "two"], "positive integers"),
        ([*ARRAYS, "--k", "0"], "positive integers"),
        ([*ARRAYS, "--ci", "95"], "between 0 and 1"),
        ([*ARRAYS, "--memory", "much"], "much"),
        ([*ARRAYS, "--metrics", "nmi", "--per-class", "c.csv"], "None of these metrics has a value per query"),
        ([*ARRAYS, "--distance", "cosine,cosin"], "Did you mean 'cosine'"),
        ([*ARRAYS, "--neighbours", "n.csv", "--nearest", "12"], "there are only 11 other rows"),
        ([*ARRAYS, "--out", "empty.txt/o.json"], "Cannot write"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_what_cannot_be_measured_is_refused_in_one_message(
    levelfield: Levelfield, trained: Path, words: list[str], message: str
) -> None:
    rows = np.random.default_rng(0).normal(size=(12, 4))
    Path("blank.npy").touch()
    Path("empty.txt").touch()
    np.save("none.npy", np.zeros((0, 8), dtype=np.float32))
    Path("hole.txt").write_text("a\n\nb\n")
    Path("two.csv").write_text("a,b\n1,2\n")
    np.save("e.npy", rows)
    np.save("y.npy", np.repeat(np.arange(4), 3))
    np.save("real.npy", np.arange(12.0))
    np.save("objects.npy", np.array([{"a": 1}] * 12), allow_pickle=True)
    np.savez("both.npz", a=rows, b=rows)
    ended = levelfield("evaluate", *[trained if word == "RUN" else word for word in words])
    assert message in ended.error
    assert not ended.out


def test_a_wrong_request_is_refused_before_anything_is_measured(
    levelfield: Levelfield, arrays: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levelfield.reports.evaluation.evaluate_each", lambda **_: pytest.fail("measured"))
    for words in (
        ["--dim", "4,99"],
        ["--distance", "cosine,cosin"],
        ["--metrics", "density", "--binary"],
        ["--metrics", "nmi", "--per-query", "q.csv"],
        ["--neighbours", "n.csv", "--nearest", "50"],
    ):
        assert levelfield("evaluate", *ARRAYS, *words).error


def test_what_is_undefined_is_null_in_json(levelfield: Levelfield, arrays: Path) -> None:
    np.save("y.npy", np.arange(50))
    text = levelfield("evaluate", *ARRAYS, "--metrics", "map", "--json").printed
    content = json.loads(text, parse_constant=pytest.fail)
    assert content["metrics"]["map"]["value"] is None
    assert content["metrics"]["map"]["interval"]["classes"] == [None, None]
    assert "nan" in levelfield("evaluate", *ARRAYS, "--metrics", "map").printed


def test_files_are_written_before_anything_is_printed(
    levelfield: Levelfield, arrays: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("levelfield.reports.evaluation.scores.ScoreTable.show", broken)
    assert levelfield("evaluate", *ARRAYS, "--metrics", "map", "--out", "o.json", "--per-query", "q.csv").code == 130
    assert json.loads(Path("o.json").read_text())["queries"] == 50
    assert len(read("q.csv")) == 50


def test_the_time_left_is_shown_on_a_terminal_only(
    levelfield: Levelfield, arrays: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "left" not in levelfield("evaluate", *ARRAYS).err
    monkeypatch.setattr(error_console, "_force_terminal", True)
    monkeypatch.setattr(error_console, "is_interactive", True)
    monkeypatch.setenv("TERM", "xterm")
    shown = levelfield("evaluate", *ARRAYS).err
    assert "evaluating" in shown
    assert "left" in shown
    assert "left" not in levelfield("-q", "evaluate", *ARRAYS).err


def test_queries_that_find_themselves_are_warned_of_once_with_what_to_do(levelfield: Levelfield, arrays: Path) -> None:
    ended = levelfield("evaluate", *ARRAYS, "--gallery", "e.npy", "--gallery-labels", "y.npy", "--dim", "4,8", "--json")
    assert ended.printed
    assert json.loads(ended.out)[1]["metrics"]["recall@1"]["value"] == 1
    [text] = [line for line in ended.err.splitlines() if line.startswith("Warning:")]
    assert "All 50 queries are also rows of the gallery" in text
    assert "leave out the gallery" in text


def test_the_page_of_a_run_shows_only_images_of_the_root(levelfield: Levelfield, trained: Path) -> None:
    Path("elsewhere").mkdir()
    page = ["evaluate", trained, "--page", "out.html"]
    assert levelfield(*page, "--root", "photos").code == 0
    assert "missing or unreadable" not in Path("out.html").read_text()
    assert levelfield(*page, "--root", "elsewhere").code == 0
    assert "missing or unreadable, such as" in Path("out.html").read_text()
