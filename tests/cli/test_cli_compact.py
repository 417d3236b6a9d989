"""`levelfield compact` and `levelfield report --compact`: bytes against score, for arrays, runs, studies."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_room import Levelfield

from levelfield.evaluation import compact, evaluate, paired_differences
from one_process import pages_as_for_users

ARRAYS = ["--embeddings", "e.npy", "--labels", "y.npy"]
TRAIN = ["--train-embeddings", "t.npy"]


@pytest.fixture
def arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with embeddings of test and of training classes, and a gallery."""
    monkeypatch.chdir(tmp_path)
    random, classes = np.random.default_rng(0), np.repeat(np.arange(10), 5)
    for rows, centres in (("e.npy", 0), ("g.npy", 0), ("t.npy", 1)):
        rows_of_classes = np.random.default_rng(centres).normal(size=(10, 32))[classes]
        np.save(rows, (rows_of_classes + 1.5 * random.normal(size=(50, 32))).astype(np.float32))
    np.save("y.npy", classes)
    return tmp_path


def test_every_form_is_a_row_with_its_bytes(levelfield: Levelfield, arrays: Path) -> None:
    lines = levelfield("compact", *ARRAYS, *TRAIN).printed.splitlines()
    forms = ("float32 128", "float16 64", "int8 32", "bits 4", "first 16 64", "whitened 32 128", "whitened 16 64")
    shown = [" ".join(line.split()) for line in lines]
    for form in forms:
        assert sum(line.startswith(form + " ") for line in shown) == 1, form
    text = " ".join(shown)
    assert "50 queries of 10 classes." in text
    assert "Difference: from float32, paired by class. Fitted on 50 training images." in text
    assert "Left out" not in text


def test_json_holds_what_python_gives(levelfield: Levelfield, arrays: Path) -> None:
    words = ["--dim", "4,8", "--ci", "0.9", "--json", "--out", "o.json"]
    printed = levelfield("compact", *ARRAYS, *TRAIN, *words).printed
    assert printed == Path("o.json").read_text()
    content = json.loads(printed)
    assert content["left_out"] == []
    rows, train, labels = np.load("e.npy"), np.load("t.npy"), np.load("y.npy")
    forms = compact(train, rows, dims=[4, 8])
    assert [entry["stored_as"] for entry in content["compact"]] == list(forms)
    result = {
        name: evaluate(form.rows, labels, metrics=["recall@1", "map@r"], distance=form.distance, ci=0.9)
        for name, form in forms.items()
    }
    plain = evaluate(rows, labels, metrics=["recall@1", "map@r"])
    assert dict(result["float32"]) == dict(plain), "the scores of `levelfield evaluate`"
    for entry in content["compact"]:
        form, right = forms[entry["stored_as"]], result[entry["stored_as"]]
        assert (entry["bytes"], entry["dim"], entry["distance"]) == (form.bytes, form.dim, form.distance)
        assert list(entry["metrics"]) == ["recall@1", "map@r"]
        for name, metric in entry["metrics"].items():
            assert metric["value"] == right[name]
            assert metric["interval"]["classes"] == [right.intervals[name].low, right.intervals[name].high]
            assert f"|dim:{form.dim}|bits:{form.bits}|" in metric["signature"]
            if form.name == "float32":
                assert "difference" not in metric
                continue
            apart = paired_differences(right, result["float32"], level=0.9)[name]
            assert metric["difference"]["value"] == apart.mean
            ends = [None if np.isnan(end) else end for end in (apart.low, apart.high)]
            assert metric["difference"]["interval"] == {"level": 0.9, "classes": ends}


def test_without_training_embeddings_it_says_what_is_left_out(levelfield: Levelfield, arrays: Path) -> None:
    content = json.loads(levelfield("compact", *ARRAYS, "--json").printed)
    assert [entry["stored_as"] for entry in content["compact"]] == ["float32", "float16", "first 16"]
    [note] = content["left_out"]
    assert note.startswith("Left out: int8, bits and whitened")
    assert note in " ".join(levelfield("compact", *ARRAYS).printed.split())


def test_without_intervals_there_are_only_values(levelfield: Levelfield, arrays: Path) -> None:
    words = ["compact", *ARRAYS, "--ci", "0", "--metrics", "recall@1"]
    assert " to " not in levelfield(*words).printed.split("queries")[0]
    [_, half, _] = json.loads(levelfield(*words, "--json").printed)["compact"]
    assert list(half["metrics"]["recall@1"]["difference"]) == ["value"]
    assert "float16: recall@1|self:id" in levelfield(*words, "--signatures").printed


def test_a_run_is_fitted_on_its_training_classes_and_stays_as_it_was(levelfield: Levelfield, trained: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    stored = json.loads((trained / "metrics.json").read_text())["values"]
    content = json.loads(levelfield("compact", trained, "--json").printed)
    names = [entry["stored_as"] for entry in content["compact"]]
    assert names[:4] == ["float32", "float16", "int8", "bits"]
    result = {name: entry["value"] for name, entry in content["compact"][0]["metrics"].items()}
    assert result == pytest.approx({name: stored[name] for name in result})
    assert "Fitted on 16 training images." in levelfield("compact", trained).printed
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--distance", "cosine,dot"], "Unknown distance 'cosine,dot'"),
        (["--metrics", "recall@1,nmi"], "not 'nmi'"),
        (["--train-embeddings", "gone.npy"], "File not found: gone.npy"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_what_does_not_fit_is_refused(levelfield: Levelfield, arrays: Path, words: list[str], message: str) -> None:
    ended = levelfield("compact", *ARRAYS, *words)
    assert message in " ".join(ended.error.split())
    assert not ended.out


def test_a_run_needs_no_training_embeddings_and_binary_codes_cannot_be_smaller(
    levelfield: Levelfield, room: Path
) -> None:
    words = ["seeds=1", "methods=[contrastive]", "conditions.codes=binary"]
    assert levelfield("-q", "compare", "small.yaml", *words).code == 0
    run = next(Path("runs/small/contrastive").glob("seed0-*"))
    assert "a run embeds its own training classes" in levelfield("compact", run, *TRAIN).error
    message = levelfield("compact", run).error
    assert "are binary codes, one bit per number" in " ".join(message.split())


def test_report_has_one_row_per_method_and_the_page_keeps_its_table(
    levelfield: Levelfield, compared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages_as_for_users(monkeypatch)
    before = {path: path.stat().st_mtime_ns for path in (compared / "runs" / "small").rglob("seed*/*")}
    printed = levelfield("report", "runs/small", "--compact").printed
    assert "Compact embeddings: recall@1, by form and bytes per image" in printed
    assert "compact.csv" in printed.partition("Written:")[2]
    content = json.loads(Path("runs/small/compact.json").read_text())
    board = json.loads(Path("runs/small/leaderboard.json").read_text())
    assert {row["label"] for row in content["rows"]} == {"lda", "contrastive", "normalized_softmax"}
    scores = {row["label"]: row["cells"]["recall@1"]["mean"] for row in board["rows"]}
    assert [row["label"] for row in content["rows"]] == [row["label"] for row in board["rows"]]
    for row in content["rows"]:
        assert row["cells"]["float32"]["mean"] == pytest.approx(scores[row["label"]])
    assert before == {path: path.stat().st_mtime_ns for path in (compared / "runs" / "small").rglob("seed*/*")}

    def titles() -> list[str]:
        return [table["title"] for table in json.loads(Path("runs/small/report.json").read_text())["tables"]]

    assert "Compact embeddings" in titles()
    assert "Compact embeddings" not in levelfield("report", "runs/small").printed
    assert "Compact embeddings" in titles()


def test_what_compact_cannot_do_loses_no_leaderboard(
    levelfield: Levelfield, compared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = levelfield("report", "runs/small", "--compact", "--metrics", "nmi").error
    assert "--compact compares a retrieval metric, such as recall@1, but the metrics are nmi" in " ".join(
        message.split()
    )
    message = levelfield("compare", "small.yaml", "metrics=[nmi]", "--compact").error
    assert "--compact compares a retrieval metric" in " ".join(message.split())
    assert "--compact needs --compare" in levelfield("tune", "small.yaml", "--compact").error

    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr("levelfield.studies.leaderboard.compact.finished_entries", fail)
    ended = levelfield("report", "runs/small", "--compact", "--no-page")
    assert "contrastive" in ended.out
    assert "the table of compact embeddings could not be made. compact: RuntimeError: no memory." in " ".join(
        ended.error.split()
    )


def test_compare_ends_with_the_table(levelfield: Levelfield, compared: Path) -> None:
    printed = levelfield("compare", "small.yaml", "--compact", "--no-page").printed
    assert "Compact embeddings: recall@1" in printed
    assert (compared / "runs" / "small" / "compact.md").is_file()
