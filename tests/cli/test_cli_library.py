"""Built-in studies on the command line; and one pipeline: Python, `compare` and `report` give the same output."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from cli_room import Levelfield

import levelfield as package
from levelfield import library
from levelfield.reports.figures import _registry as figures
from levelfield.studies import read_study


def test_list_studies_says_what_each_is_about_and_needs(levelfield: Levelfield) -> None:
    listed = levelfield("list", "studies").printed
    assert all(name in listed for name in library.names())
    assert "Six losses on handwritten characters" in listed
    shown = levelfield("list", "studies", "roth2020/table4").printed
    assert "objectives on CUB" in shown
    assert "cub, weights of resnet50.tv_in1k (--mini: levelfield[demo])" in " ".join(shown.split())


def test_init_copies_a_study_to_edit(levelfield: Levelfield, room: Path) -> None:
    assert "levelfield compare my.yaml" in levelfield("init", "--from", "demo", "my.yaml").printed
    assert read_study("my.yaml").model_copy(update={"name": "demo"}) == read_study("demo")
    assert "already exists" in levelfield("init", "--from", "demo", "my.yaml").error
    levelfield("init", "--from", "demo", "my.yaml", "--force")
    levelfield("init", "--from", "roth2020/table4")
    assert read_study("roth2020-table4.yaml") == read_study("roth2020/table4")
    assert "Did you mean 'demo'" in levelfield("init", "--from", "dmo", "other.yaml").error
    assert "levelfield init FOLDER" in levelfield("init").error


@pytest.mark.parametrize("command", ["compare", "train"])
def test_an_unknown_study_is_one_message(levelfield: Levelfield, room: Path, command: str) -> None:
    assert levelfield(command, "backbnes").error == (
        "Error: Unknown study 'backbnes'. Did you mean 'backbones'? See `levelfield list studies`."
    )
    assert "use 'demo'" in levelfield(command, "demo.yaml").error
    assert "is a folder, not a study file" in levelfield(command, "photos").error


def written(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def test_python_compare_and_report_write_and_say_the_same(levelfield: Levelfield, compared: Path) -> None:
    folder = Path("runs/small")
    by_compare = levelfield("compare", "small.yaml", "--full").printed.partition("\nNext:")[0]
    files = written(folder)
    assert {"leaderboard.json", "leaderboard.csv", "leaderboard.md", "leaks.json", "best"} <= set(files)

    for file in folder.glob("lea*"):
        file.unlink()
    assert levelfield("report", "runs/small", "--full").printed.strip() == by_compare.strip()
    assert written(folder) == files

    for file in folder.glob("lea*"):
        file.unlink()
    report = package.compare("small.yaml")
    assert report.text(width=100).strip() == by_compare.strip()
    assert written(folder) == files
    written_files = {"leaderboard.json", "leaderboard.csv", "leaderboard.md", "leaks.json"}
    assert {path.name for path in report.paths} == written_files


def test_a_report_is_the_leaderboard_and_its_best_row(compared: Path) -> None:
    report = package.compare("small.yaml")
    assert report.best is report.leaderboard.recommended
    assert Path(report.best.first_run) == Path("runs/small") / Path("runs/small/best").read_text().strip()
    assert repr(report).startswith("Report('small': 3 rows, best by recall@1 ")
    assert report._repr_html_() == report.leaderboard._repr_html_()
    assert list(report.to_pandas().index) == [row.label for row in report.leaderboard.rows]
    assert "second" in report.to_pandas("comparisons").columns


def test_in_python_a_figure_that_cannot_be_drawn_is_a_warning(
    compared: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("no ink")

    figures.registry.get("leaderboard")  # registers its facts
    monkeypatch.setitem(figures.registry._entries, "leaderboard", broken)
    study = read_study("small.yaml", ["figures=[leaderboard]"])
    with caplog.at_level(logging.WARNING, "levelfield"):
        report = package.compare(study)
    assert report.not_drawn == {"leaderboard": "ValueError: no ink"}
    assert "a figure could not be drawn. leaderboard: ValueError: no ink." in caplog.text
    assert Path("runs/small/leaderboard.json").is_file()
