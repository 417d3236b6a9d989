"""The file `best` of a study: found by its folder, and never followed outside of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from levelfield.embedder.best import BEST, run_folder, write_best
from levelfield.errors import BadInput


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "photos"
    (folder / "margin" / "seed0-1a").mkdir(parents=True)
    (folder / "margin" / "seed0-1a" / "run.yaml").touch()
    (folder / "runs.json").touch()
    return folder


def test_a_study_and_its_pointer_stand_for_the_best_run(study: Path, tmp_path: Path) -> None:
    run = study / "margin" / "seed0-1a"
    write_best(study, run)
    assert run_folder(study) == run_folder(study / BEST) == run_folder(str(run)) == run
    moved = study.rename(tmp_path / "elsewhere")
    assert run_folder(moved) == moved / "margin" / "seed0-1a"
    (moved / BEST).unlink()
    with pytest.raises(BadInput, match="without a best run"):
        run_folder(moved)


@pytest.mark.parametrize("text", ["../../secret", "/etc", "margin/../../../secret", ".", "", "a\0b", "x" * 5000])
def test_a_pointer_out_of_the_study_is_refused(study: Path, text: str) -> None:
    (study.parent.parent / "secret").mkdir()
    (study / BEST).write_text(text)
    with pytest.raises(BadInput, match="best"):
        run_folder(study)


def test_links_out_of_the_study_are_refused(study: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (study / "margin" / "out").symlink_to(tmp_path / "secret")
    (study / BEST).write_text("margin/out")
    with pytest.raises(BadInput, match="does not name a run inside"):
        run_folder(study)
    (study / BEST).unlink()
    (tmp_path / "pointer").write_text("margin/seed0-1a")
    (study / BEST).symlink_to(tmp_path / "pointer")
    with pytest.raises(BadInput, match="does not name a run inside"):
        run_folder(study / BEST)


def test_a_method_called_best_keeps_its_folder(study: Path) -> None:
    (study / BEST / "seed0-2b").mkdir(parents=True)
    write_best(study, study / "margin" / "seed0-1a")
    assert (study / BEST / "seed0-2b").is_dir()
