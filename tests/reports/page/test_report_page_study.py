"""The page of whole studies, also of bad ones: moved images, failed runs, one run, strange class names."""

from __future__ import annotations

import shutil
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from looked_at import CLASSES, LABELS, METHODS, array, content_of, draw, page_of, write_study_of
from test_report_page_files import NASTY

import levelfield
from levelfield.reports import finish
from levelfield.reports.page.standings import letter_groups
from levelfield.studies.runs.folder.files import EMBEDDINGS
from levelfield.studies.specification.locations import images_in

ROWS = ["a", "b", "c", "d", "e", "f"]
PAIRS = list(combinations(ROWS, 2))
SMALL = {"backbone": "test_resnet", "weights": "random", "image": 32, "dim": 8, "steps": 2, "batch": "3x2"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study's folder with its page."""
    room = tmp_path_factory.mktemp("room")
    study, runs = write_study_of(room / "study", room / "photos")
    report = finish(study, runs, room / "study")
    assert report.page == room / "study" / "report.html"
    assert report.paths[-2:] == [room / "study" / "report.html", room / "study" / "report.json"]
    return room


def test_the_page_says_what_the_leaderboard_says(made: Path) -> None:
    page = content_of(made / "study" / "report.html")
    assert [row["label"] for row in page["rows"]] == ["untrained", "triplet", "contrastive"]
    assert page["answer"][0].startswith("Use untrained")
    assert page["answer"][-1] == "untrained trains nothing."
    assert page["rows"][page["best"]]["label"] == "untrained"
    assert page["metrics"][0]["name"] == "recall@1"
    assert len(page["comparisons"]) == 3
    assert all(set("abc") >= set(row["group"]) and row["group"] for row in page["rows"])
    assert {table["title"] for table in page["tables"]} >= {"Conditions", "Methods", "Cost", "Signatures"}
    assert [row["embedded"] for row in page["rows"]] == [0, 1, 2]
    assert page["rows"][1]["run"].startswith("triplet/seed0")
    assert [(curve["row"], curve["seed"]) for curve in page["curves"]] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert len(page["curves"][0]["loss"]) == 200
    assert page["curves"][0]["loss"][-1][0] == 498
    [test] = page["tests"]
    assert len(test["why"]["notes"]) == len(METHODS)  # no run has a model
    assert test["why"]["maps"] == []
    data = (made / "study" / "report.json").read_text(encoding="utf-8")
    assert '"thumbnails":null' in data


def test_the_page_shows_the_neighbours_of_the_stored_embeddings(made: Path) -> None:
    page = content_of(made / "study" / "report.html")
    [test] = page["tests"]
    for row in page["rows"]:
        method = test["methods"][row["embedded"]]
        rows = np.load(made / "study" / row["run"] / EMBEDDINGS).astype(np.float64)
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        cosine = unit @ unit.T - 10 * np.eye(len(rows))
        nearest = cosine.argmax(axis=1)
        np.testing.assert_array_equal(array(method["neighbours"])[:, 0], nearest)
        np.testing.assert_allclose(array(method["similarity"])[:, 0] / 65535 * 2 - 1, cosine.max(axis=1), atol=4e-5)
        np.testing.assert_array_equal(array(method["right"]), LABELS[nearest] == LABELS)
        assert array(method["map"]).shape == (len(LABELS), 2)
    assert test["classes"] == sorted(f"class {number}" for number in range(CLASSES))
    assert np.array(test["classes"])[array(test["class_of"])].tolist() == [f"class {number}" for number in LABELS]
    assert test["lost"] == []
    assert len(test["thumbnails"]["sheets"]) == 1


def test_an_unchanged_page_is_left_alone_unless_asked(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    study, runs = write_study_of(tmp_path / "study", tmp_path / "photos")
    page = tmp_path / "study" / "report.html"
    finish(study, runs, tmp_path / "study")
    written = page.stat().st_mtime_ns
    assert finish(study, runs, tmp_path / "study").page == page
    assert page.stat().st_mtime_ns == written
    finish(study, runs, tmp_path / "study", again=True)
    assert page.stat().st_mtime_ns > written


def test_deleted_images_are_counted_and_the_page_still_works(tmp_path: Path) -> None:
    study, runs = write_study_of(tmp_path / "study", tmp_path / "photos", seeds=1)
    shutil.rmtree(tmp_path / "photos" / "class3")
    page = content_of(finish(study, runs, tmp_path / "study").paths[-2])
    assert page["tests"][0]["lost"] == np.flatnonzero(LABELS == 3).tolist()
    assert any(
        text.startswith("5 test images are missing or unreadable now, such as class3/") for text in page["cautions"]
    )
    shutil.rmtree(tmp_path / "photos")
    gone = page_of(tmp_path / "study")
    assert len(gone["tests"][0]["lost"]) == len(LABELS)
    assert len(gone["tests"][0]["methods"]) == len(METHODS)


def test_images_of_a_list_that_lie_outside_of_the_root_are_missing(made: Path, tmp_path: Path) -> None:
    """items.csv of somebody else may name any image of this machine."""
    (tmp_path / "root").mkdir()
    assert page_of(made / "study")["tests"][0]["lost"] == []
    with images_in(tmp_path / "root"):
        assert len(page_of(made / "study")["tests"][0]["lost"]) == len(LABELS)


def test_failed_runs_are_listed_with_their_reason(tmp_path: Path) -> None:
    _, runs = write_study_of(tmp_path / "study", tmp_path / "photos", without=["triplet"])
    place = next(run for run in runs if run.label == "triplet").folder(tmp_path / "study")
    place.mkdir(parents=True)
    (place / "error.txt").write_text("Traceback\nlevelfield.errors.RunFailed: the loss became NaN\n", encoding="utf-8")
    page = page_of(tmp_path / "study")
    assert page["missing"] == [
        {"row": "triplet, seed 0", "reason": "the loss became NaN"},
        {"row": "triplet, seed 1", "reason": "not finished"},
    ]
    assert any(text.startswith("2 runs are missing: triplet, seed 0: the loss became NaN") for text in page["cautions"])


def test_runs_without_embeddings_or_with_nan_are_on_the_leaderboard_only(tmp_path: Path) -> None:
    _, runs = write_study_of(tmp_path / "study", tmp_path / "photos", seeds=1)
    place = runs[0].folder(tmp_path / "study")
    rows = np.load(place / EMBEDDINGS)
    rows[3] = np.nan
    np.save(place / EMBEDDINGS, rows)
    stored = (place / "training.json").read_text(encoding="utf-8")
    (place / "training.json").write_text(stored.replace("checksum", "unchecked"), encoding="utf-8")
    for _ in range(2):
        page = page_of(tmp_path / "study")
        assert [row["embedded"] for row in page["rows"]] == [0, 1, None]
        assert page["tests"][0]["notes"][0].startswith("contrastive is not shown here")
        (place / EMBEDDINGS).unlink(missing_ok=True)
    for run in runs[1:]:
        (run.folder(tmp_path / "study") / EMBEDDINGS).unlink()
    assert page_of(tmp_path / "study")["tests"][0]["count"] == 0


def test_strange_class_names_arrive_as_they_are(tmp_path: Path) -> None:
    names = [*NASTY, *(f"class {number}" for number in range(CLASSES - len(NASTY)))]
    study, runs = write_study_of(tmp_path / "study", tmp_path / "photos", seeds=1, classes=names)
    report = finish(study, runs, tmp_path / "study")
    page = content_of(report.page)
    assert set(NASTY) <= set(page["tests"][0]["classes"])
    text = report.page.read_text(encoding="utf-8")
    assert text.count("<script") == 2
    assert "alert(1)</script>" not in text


def test_queries_and_gallery(tmp_path: Path) -> None:
    roles = np.where(np.arange(len(LABELS)) % 5 == 0, "query", "gallery")
    write_study_of(tmp_path / "study", tmp_path / "photos", seeds=1, roles=roles)
    [test] = page_of(tmp_path / "study")["tests"]
    assert test["query"] is not None
    assert test["query"].tolist() == (roles == "query").astype(int).tolist()
    for method in test["methods"]:
        assert len(method["neighbours"]) == (roles == "query").sum()
        assert set(roles[method["neighbours"].ravel()]) == {"gallery"}
        assert (method["right"][roles == "gallery"] == 2).all()


def test_a_method_alone_is_compared_with_none(tmp_path: Path) -> None:
    study, runs = write_study_of(tmp_path / "study", tmp_path / "photos", methods=["contrastive"], seeds=1)
    page = content_of(finish(study, runs, tmp_path / "study").paths[-2])
    assert page["comparisons"] == []
    assert page["rows"][0]["group"] == ""
    assert "Every method was trained once: how much another seed would change is unknown." in page["cautions"]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("room")
    draw(folder / "photos", np.repeat(np.arange(14), 4))
    return folder


def test_validation_classes_choose_the_threshold_and_regions_are_exact(
    room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(room / "cache"))
    study = {
        "name": "whole",
        "data": str(room / "photos"),
        "protocol": {"name": "standard", "validation": 0.4},
        "methods": ["contrastive", "untrained"],
        "seeds": 1,
        "conditions": {**SMALL, "select": "recall@1", "validate_every": 1},
        "metrics": ["recall@1"],
    }
    report = levelfield.compare(study, out=room / "runs")
    assert report.page == room / "runs" / "whole" / "report.html"
    page = content_of(report.page)
    [test] = page["tests"]
    assert {method["threshold"]["source"] for method in test["methods"]} == {"validation classes"}
    assert {one["method"] for one in test["why"]["maps"]} == {0, 1}
    assert all(one["exact"] for one in test["why"]["maps"])
    for row in page["rows"]:
        right = array(test["methods"][row["embedded"]]["right"])
        assert (right[right < 2] == 1).mean() == pytest.approx(row["cells"]["recall@1"]["mean"])
    [curve] = page["curves"]
    assert curve["validation"]
    assert curve["chosen_step"] in [point[0] for point in curve["validation"]]
    assert levelfield.compare({**study, "name": "bare"}, out=room / "runs", page=False).page is None
    (room / "photos").rename(room / "moved")
    assert len(page_of(report.page.parent)["tests"][0]["lost"]) == test["count"]
    with images_in(room / "moved"):
        assert page_of(report.page.parent)["tests"][0]["lost"] == []


@given(st.sets(st.sampled_from(PAIRS)))
def test_two_rows_share_a_letter_exactly_if_they_cannot_be_told_apart(different: set[tuple[str, str]]) -> None:
    letters = letter_groups(ROWS, different)
    for first, second in PAIRS:
        shared = set(letters[first]) & set(letters[second])
        assert bool(shared) == ((first, second) not in different)


def test_letters_begin_with_the_best_row_and_too_many_sets_give_none() -> None:
    assert letter_groups(["z", "y", "x"], [("z", "x"), ("y", "x")]) == {"z": "a", "y": "a", "x": "b"}
    rows = [f"{number}" for number in range(20)]
    pairs = [(rows[k], rows[k + 1]) for k in range(0, 20, 2)]  # 2^10 sets
    assert set(letter_groups(rows, pairs).values()) == {""}
    assert letter_groups([], []) == {}
