"""Moved runs and images are found: at the old location, next to the run, in its parent folders, or by --root."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_world import make_photos, run_one, small_study

from levelfield.errors import MissingData
from levelfield.studies import read_study
from levelfield.studies.runs.finished import embed_part
from levelfield.studies.specification.choices import Data
from levelfield.studies.specification.locations import Location, images_in, location_of, placed


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos and one run on them, which names them relative to that folder."""
    home = tmp_path_factory.mktemp("project")
    make_photos(home / "photos", classes=6, each=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        run_one(small_study("photos", ["lda"]), Path("runs/small"))
    return home


def run_in(project: Path) -> Path:
    return next((project / "runs/small/lda").glob("seed0-*"))


@pytest.mark.parametrize("moved", ["nothing", "all", "the runs", "the photos and the runs apart"])
def test_a_run_finds_its_images(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: str) -> None:
    monkeypatch.chdir(tmp_path)  # another working directory in any case
    run, root = run_in(project), None
    if moved == "all":
        run = run_in(shutil.copytree(project, tmp_path / "elsewhere"))
    elif moved == "the runs":
        run = run_in(shutil.copytree(project / "runs", tmp_path / "away/runs").parent)
    elif moved == "the photos and the runs apart":
        run = run_in(shutil.copytree(project / "runs", tmp_path / "away/runs").parent)
        root = shutil.copytree(project / "photos", tmp_path / "pictures")
    with images_in(root):
        rows, _ = embed_part(run, "training")
    assert len(rows) == 12


def test_images_that_are_gone_are_told_with_every_place(tmp_path: Path) -> None:
    run, there = tmp_path / "runs/demo/margin/seed0", Location(absolute="/gone/photos", relative="../../../../photos")
    with pytest.raises(MissingData) as error:
        placed(Data(name="photos"), run, there)
    for place in (Path.cwd() / "photos", "/gone/photos", tmp_path / "photos", tmp_path / "runs/demo/photos", "--root"):
        assert str(place) in str(error.value)


def test_a_root_is_the_folder_or_the_one_above(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for root in (tmp_path, tmp_path / "photos"):
        with images_in(root):
            assert placed(Data(name="old/photos"), tmp_path).name == str(tmp_path / "photos")
            assert placed(Data(name="cub"), tmp_path).settings["root"] == str(root)


def test_embedded_data_has_no_place(tmp_path: Path) -> None:
    assert location_of(Data(name="emoji"), tmp_path) is None
    assert placed(Data(name="emoji"), tmp_path) == Data(name="emoji")


def test_a_study_file_finds_its_images_from_another_folder(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "study.yaml").write_text("data: photos\nmethods: [lda]\n")
    monkeypatch.chdir(tmp_path)
    assert read_study(project / "study.yaml").data.name == str(project / "photos")
    monkeypatch.chdir(project)
    assert read_study(project / "study.yaml").data.name == "photos"
