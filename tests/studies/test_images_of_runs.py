"""Images of studies and runs: checked once, recognised by content, and searched for after they were moved."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from small_world import make_photos, run_one, small_study

from levelfield.errors import BadInput, MissingData, UnknownName
from levelfield.progress import CallbackProgress
from levelfield.studies import read_study, resolve
from levelfield.studies.planning.plan import plan
from levelfield.studies.runs.finished import embed_part
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.shared import open_catalog
from levelfield.studies.specification.choices import Data
from levelfield.studies.specification.locations import Location, images_in, location_of, placed, within_root
from levelfield.studies.specification.study import parse_study


@pytest.fixture
def old_photos(photos: Path, tmp_path: Path) -> Path:
    """Photos of yesterday."""
    shutil.copytree(photos, tmp_path / "photos")
    for path in (tmp_path / "photos").glob("*/*"):
        yesterday = path.stat().st_mtime - 86_400
        os.utime(path, (yesterday, yesterday))
    return tmp_path / "photos"


def spoil(path: Path, *, secretly: bool) -> None:
    """Other bytes, as many; `secretly`: with the time of before, so that only who opens it can tell."""
    state = path.stat()
    path.write_bytes(bytes(state.st_size))
    if secretly:
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def test_a_study_that_starts_again_opens_no_image(old_photos: Path) -> None:
    study = small_study(old_photos, ["lda"])
    told: list[tuple[int, int]] = []
    wrong = small_study(old_photos, ["lda"], overrides=("protocol=mlcr",))
    with pytest.raises(UnknownName, match="Did you mean 'mlrc'"):
        resolve(wrong, progress=CallbackProgress(lambda _, *step: told.append(step)))
    assert told == [], "a wrong name is reported before any image is opened"
    first = resolve(study, progress=CallbackProgress(lambda _, *step: told.append(step))).runs
    assert told == [(done, 40) for done in range(41)]
    for path in old_photos.glob("*/*"):
        spoil(path, secretly=True)
    told.clear()
    assert resolve(study, progress=CallbackProgress(lambda _, *step: told.append(step))).runs == first
    assert told == []
    assert inputs_for(first[0].spec, None, "cpu").catalog.digest == first[0].spec.data_digest


def test_an_image_that_changed_is_found_by_the_next_start_and_by_a_run(old_photos: Path) -> None:
    study = small_study(old_photos, ["lda"])
    [run] = resolve(study).runs
    spoil(old_photos / "class03" / "1.png", secretly=False)
    with pytest.raises(BadInput, match="are not those that the study began with"):
        _ = inputs_for(run.spec, None, "cpu").catalog
    with pytest.raises(BadInput, match=r"1 of 40 images(.|\n)*class03/1.png"):
        resolve(study)


def test_images_are_known_by_their_content_wherever_they_lie(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shutil.copytree(photos, tmp_path / "photos").parent)
    shutil.copytree(photos, tmp_path / "elsewhere" / "copied")
    shutil.make_archive("packed", "zip", "photos")
    lines = [f"{path},{path.parent.name}\n" for path in sorted(Path("photos").glob("*/*"))]
    Path("list.csv").write_text("".join(lines))
    Path("mine.py").write_text("from levelfield import data\ndef photos(): return data.create('photos')\n")
    places: list[Any] = [
        "photos",
        "./photos/",
        str(tmp_path / "photos"),
        "photos/../photos",
        "elsewhere/copied",
        "packed.zip",
        "list.csv",
        "mine.py:photos",
        {"name": "folder", "path": "photos"},
        {"name": "csv", "path": "list.csv"},
    ]
    identities = {place if isinstance(place, str) else place["name"]: identity_on(place) for place in places}
    assert len(set(identities.values())) == 1, identities
    shutil.copy(next(Path("photos").glob("*/*")), Path("photos").joinpath("one more.png"))
    assert identity_on("photos") in identities.values()  # in no class
    shutil.copy(next(Path("photos").glob("*/*")), next(Path("photos").glob("*")) / "one more.png")
    assert identity_on("photos") not in identities.values()


def identity_on(data: Any) -> str:
    study = parse_study({"data": data, "methods": ["margin"], "seeds": 1})
    [run] = plan(study, digest=lambda choice: open_catalog(choice).digest)
    return run.spec.identity


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
    run, there = tmp_path / "runs/demo/margin/seed0", Location(absolute="/gone/p", relative="../../../../gone photos")
    with pytest.raises(MissingData) as error:
        placed(Data(name="gone photos"), run, there)
    for place in (*(folder / "gone photos" for folder in (Path.cwd(), tmp_path, run.parent)), "/gone/p", "--root"):
        assert str(place) in str(error.value)


def test_a_root_is_the_folder_or_the_one_above(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for root in (tmp_path, tmp_path / "photos"):
        with images_in(root):
            assert placed(Data(name="old/photos"), tmp_path).name == str(tmp_path / "photos")
            assert placed(Data(name="cub"), tmp_path).settings["root"] == str(root)
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


def test_no_image_outside_of_the_root_is_read(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    root = Path(shutil.copytree(photos, tmp_path / "root/photos")).parent
    (root / "linked.png").symlink_to(next(photos.glob("*/*")))
    inside = [root / "linked.png", root / "photos/a.png", tmp_path / "cache/unpacked/a.png"]
    outside = [photos / "a.png", root / "../a.png", Path("a.png")]
    assert [within_root(path) for path in outside] == outside
    with images_in(root):
        assert [within_root(path) for path in inside] == inside
        assert all(root in within_root(path).parents and not within_root(path).exists() for path in outside)
        assert placed(Data(name=str(photos)), tmp_path).name == str(root / "photos")
        assert placed(Data(name="../elsewhere"), tmp_path).name == str(root)
        (root / "list.csv").write_text("".join(f"{path},{path.parent.name}\n" for path in photos.glob("*/*")))
        with pytest.raises(BadInput, match="is not in the folder of --root"):
            open_catalog(Data(name=str(root / "list.csv")))
