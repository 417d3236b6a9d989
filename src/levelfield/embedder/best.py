"""A stable name for a study's best run: the file `best` in the study's folder names its folder."""

from __future__ import annotations

from pathlib import Path

from levelfield.errors import BadInput
from levelfield.files.writing import write_text

BEST = "best"
_LONGEST = 1000  # maximum characters of a pointer


def write_best(study_folder: Path, run: Path) -> None:
    """Write the folder of a run to the file `best`, unless a method labelled `best` has a folder of that name."""
    if not (study_folder / BEST).is_dir():
        write_text(study_folder / BEST, f"{run.relative_to(study_folder).as_posix()}\n")


def run_folder(folder: Path | str) -> Path:
    """The run folder that `folder` refers to: itself, the target of a file `best`, or the best run of a study."""
    folder = Path(folder)
    if folder.is_file() and folder.name == BEST:
        return _followed(folder)
    of_a_run = any((folder / name).is_file() for name in ("run.yaml", "model.yaml"))
    if of_a_run or not (folder / "runs.json").is_file():
        return folder
    if not (folder / BEST).is_file():
        raise BadInput(
            f"{folder} is a study without a best run: finish it with `levelfield compare`, or pass one of its runs."
        )
    return _followed(folder / BEST)


def _followed(pointer: Path) -> Path:
    """The folder that a pointer names; it must be inside the pointer's own folder."""
    home, again = pointer.parent.resolve(), "remove it, and `levelfield compare` writes it again"
    with pointer.open("rb") as file:
        text = file.read(_LONGEST + 1).decode("utf-8", errors="replace").strip()
    try:
        real = (home / text).resolve()
        if not pointer.is_symlink() and real != home and real.is_relative_to(home):
            if real.is_dir():
                return pointer.parent / text
            raise BadInput(f"{pointer} names the run {text}, which no longer exists: {again}.")
    except (OSError, ValueError):
        pass  # no path at all
    raise BadInput(f"{pointer} does not name a run inside {pointer.parent}: {again}.")
