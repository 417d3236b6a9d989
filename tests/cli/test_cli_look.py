"""Help of every command, and `levelfield list`, `cache`, `report` and `init`."""

from __future__ import annotations

import csv
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml
from cli_room import Levelfield, make_photos

from levelfield.cli.app import PANELS

COMMANDS = [command for commands in PANELS.values() for command in commands]
INNER = ["datasets check", "datasets leaks", "cluster check"]


@pytest.mark.parametrize("command", [*COMMANDS, *INNER])
def test_help_has_an_example_of_the_command(levelfield: Levelfield, command: str) -> None:
    printed = " ".join(levelfield(*command.split(), "--help").printed.split())
    example = re.search(r"Example: (levelfield .*)", printed)
    assert example
    assert shlex.split(example[1])[1:][: len(command.split())] == command.split()


@pytest.mark.parametrize("words", [["compar"], ["list", "things"], ["compare", "--jobs", "-1"], ["embed"]])
def test_wrong_usage_ends_with_2_and_says_where_to_look(levelfield: Levelfield, words: list[str]) -> None:
    ended = levelfield(*words)
    assert ended.code == 2
    assert "--help" in ended.err
    assert "Traceback" not in ended.err


def test_a_reader_who_closes_the_pipe_is_told_nothing(levelfield: Levelfield, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*args: object, **kwargs: object) -> None:
        try:
            raise BrokenPipeError
        except BrokenPipeError:
            raise SystemExit(1) from None  # as rich does

    monkeypatch.setattr("levelfield.cli.app.app", closed)
    ended = levelfield("compare", "--help")
    assert (ended.code, ended.err) == (1, "")


ONE_OF_EACH = {
    "objectives": ("margin", "distance", "margn"),
    "miners": ("semihard", "", "semihrad"),
    "batchings": ("spc", "samples_per_class: 2", "scp"),
    "datasets": ("folder", "sub-folder", "foldr"),
    "metrics": ("map@r", "", "mapr@"),
    "backbones": ("test_resnet", "layer4", "test_resnte"),
    "methods": ("lda", "closed form", "ldaa"),
}


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_every_kind_is_listed_and_each_name_described(levelfield: Levelfield, kind: str) -> None:
    name, fact, wrong = ONE_OF_EACH[kind]
    listed = levelfield("list", kind).printed
    assert name in listed
    described = levelfield("list", kind, name).printed
    assert name in described
    assert fact in described
    assert f"'{name}'" in levelfield("list", kind, wrong).error


def test_an_objective_is_shown_with_formula_sources_ranges_and_presets(levelfield: Levelfield) -> None:
    printed = " ".join(levelfield("list", "objectives", "triplet").printed.split())
    assert "mean [d_ap - d_an + margin]+" in printed
    assert "roth2020 eq. 2" in printed
    assert "2 per class" in printed
    assert "semihard, distance_weighted" in printed
    assert "0.02 to 1 (log)" in printed
    assert "roth2020 A.1" in printed
    assert "roth2020/cars" in printed
    assert "_empty" not in levelfield("list", "objectives", "proxy_anchor").printed


def test_the_cache_is_shown_and_cleared_and_results_stay(levelfield: Levelfield, room: Path) -> None:
    for words in ([], ["--clear"]):
        printed = levelfield("cache", "--cache", "mine", *words).printed
        assert printed == "The cache is empty: there is no folder mine.\n"
    levelfield("-q", "compare", "small.yaml", "methods=[lda]", "--cache", "mine")
    assert "test_resnet" in levelfield("cache", "--cache", "mine").printed
    assert list((room / "mine").rglob("*.safetensors"))
    assert "Cleared" in levelfield("cache", "--cache", "mine", "--clear").printed
    assert not list((room / "mine").rglob("*.safetensors"))
    printed = levelfield("cache", "--cache", "mine").printed
    assert "0.0 MB" in printed
    assert "test_resnet" not in printed
    assert "lda" in levelfield("report", "runs/small").printed


def test_the_cache_has_unpacked_archives_and_images_that_were_seen(
    levelfield: Levelfield, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(room / "mine"))
    for photo in (room / "photos").rglob("*.png"):
        os.utime(photo, (1e9, 1e9))  # what changed just now is looked at again
    shutil.make_archive("packed", "zip", room, "photos")
    levelfield("-q", "datasets", "leaks", "packed.zip")
    levelfield("-q", "datasets", "leaks", "photos")
    printed = " ".join(levelfield("cache").printed.split())
    assert "unpacked archive packed-" in printed
    assert "records of checked images, for 1 folder " in printed
    assert "Cleared" in levelfield("cache", "--clear").printed
    printed = levelfield("cache").printed
    assert "unpacked archive" not in printed
    assert "checked images" not in printed
    assert {path.suffix for path in (room / "mine").rglob("*") if path.is_file()} <= {".lock", ""}
    levelfield("-q", "datasets", "leaks", "packed.zip")


def test_report_trains_nothing_and_orders_columns_as_asked(
    levelfield: Levelfield, compared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a report trains nothing")

    monkeypatch.setattr("levelfield.studies.runs.training.train", refuse)
    monkeypatch.setattr("levelfield.studies.execution.executor.execute", refuse)
    before = {path: path.stat().st_mtime_ns for path in (compared / "runs" / "small").rglob("seed*/*")}
    printed = levelfield("report", "runs/small", "--metrics", "map@r, recall@1", "--out", "tables of mine").printed
    assert "best first by map@r" in printed
    header = next(csv.reader((compared / "tables of mine" / "leaderboard.csv").open()))
    assert [name for name in header if name.endswith("mean")] == ["map@r mean", "recall@1 mean"]
    assert (compared / "tables of mine" / "leaderboard.md").exists()
    assert before == {path: path.stat().st_mtime_ns for path in (compared / "runs" / "small").rglob("seed*/*")}


def test_report_names_what_is_missing(levelfield: Levelfield, compared: Path) -> None:
    next((compared / "runs/small/contrastive").glob("seed1-*/metrics.json")).unlink()
    assert "Missing: contrastive, seed 1." in levelfield("report", "runs/small").printed
    assert "has mrr" in levelfield("report", "runs/small", "--metrics", "mrr").error
    assert "Did you mean 'recall@" in levelfield("report", "runs/small", "--metrics", "recal@1").error
    assert "no runs.json" in levelfield("report", "runs").error


def test_init_writes_a_study_that_runs_and_does_not_overwrite(levelfield: Levelfield, room: Path) -> None:
    make_photos(room / "my photos.v2", classes=6)
    printed = " ".join(levelfield("init", "my photos.v2").printed.split())
    target = room / "my photos.v2.yaml"
    assert shlex.split(printed.rpartition("then run: ")[2]) == ["levelfield", "compare", target.name]
    text = target.read_text()
    assert text.startswith("# my photos.v2: 24 images of 6 classes")
    content = yaml.safe_load(text)
    assert content["conditions"]["batch"] == "3x4"
    assert content["methods"][1:3] == [{"label": "head at its start", "start": {}}, "proxy_anchor"]
    assert "# Steps: 10 for every run, because 3 training classes are too few" in text
    assert "--force" in levelfield("init", "my photos.v2").error
    assert target.read_text() == text
    assert levelfield("init", "my photos.v2", "--force").code == 0
    small = ["seeds=1", "conditions.steps=2", "conditions.image=32", "conditions.dim=4", "methods=[lda, margin]"]
    assert "margin" in levelfield("-q", "compare", target.name, *small).printed


def test_init_refuses_what_compare_would_refuse(levelfield: Levelfield, room: Path) -> None:
    assert "does not exist" in levelfield("init", "foto").error
    make_photos(room / "few", classes=3)
    assert "at least 4" in levelfield("init", "few").error
    assert not (room / "few.yaml").exists()
    (room / "photos" / "class 00" / "0.png").write_bytes(b"no image")
    assert "1 of 32 images" in levelfield("init", "photos").error
    assert levelfield("init", "photos", "--skip-unreadable").code == 0
    assert yaml.safe_load((room / "photos.yaml").read_text())["data"]["skip_unreadable"] is True


def test_report_draws_the_figures_that_are_asked_for(levelfield: Levelfield, compared: Path, tmp_path: Path) -> None:
    figures = tmp_path / "figures"
    printed = levelfield(
        "report", "runs/small", "--figure", "leaderboard", "--figure", "spectra", "--out", str(figures)
    ).printed
    assert {path.name for path in figures.glob("*.png")} == {"leaderboard.png", "spectra.png"}
    assert "spectra.png" in printed
    assert "Did you mean 'spectra'" in levelfield("report", "runs/small", "--figure", "spectrum").error
