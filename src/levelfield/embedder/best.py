"""A study's best run by a name that stays: the file `best` in the study's folder says which run it is."""

from __future__ import annotations

from pathlib import Path

from levelfield.errors import BadInput
from levelfield.files import write_text

BEST = "best"
_RUN = ("run.yaml", "model.yaml")  # what a run's folder holds, a study's folder does not
_STUDY = "runs.json"
_LONGEST = 1000  # characters that are read of a pointer


def write_best(study_folder: Path, run: Path) -> None:
    """Let `best` name the folder of a run. A plain file: it can be copied anywhere and followed nowhere else.

    A method that is called `best` has its own folder there; then the name is taken.
    """
    if not (study_folder / BEST).is_dir():
        write_text(study_folder / BEST, f"{run.relative_to(study_folder).as_posix()}\n")


def run_folder(place: Path | str) -> Path:
    """The folder of the run that `place` stands for: itself, what a file `best` names, or the best run of a study.

    >>> import tempfile
    >>> study = Path(tempfile.mkdtemp())
    >>> (study / "margin" / "seed0-1a2b3c").mkdir(parents=True)
    >>> write_best(study, study / "margin" / "seed0-1a2b3c")
    >>> run_folder(study / "best").relative_to(study).as_posix()
    'margin/seed0-1a2b3c'
    """
    place = Path(place)
    if not place.is_dir():
        return _followed(place) if place.name == BEST and place.is_file() else place
    if any((place / name).is_file() for name in _RUN) or not (place / _STUDY).is_file():
        return place
    if not (place / BEST).is_file():
        raise BadInput(
            f"{place} is a study without a best run: finish it with `levelfield compare`, or name one of its runs."
        )
    return _followed(place / BEST)


def _followed(pointer: Path) -> Path:
    """The folder that a pointer names, which has to be in the pointer's own folder."""
    home = pointer.parent
    again = "remove it, and `levelfield compare` writes it again"
    with pointer.open("rb") as file:
        text = file.read(_LONGEST + 1).decode("utf-8", errors="replace").strip()
    named = home / text if 0 < len(text) <= _LONGEST and "\0" not in text else home
    try:
        real, inside = named.resolve(), home.resolve()
        if pointer.is_symlink() or real == inside or not real.is_relative_to(inside):
            raise BadInput(f"{pointer} does not name a run inside {home}: {again}.")
        if not named.is_dir():
            raise BadInput(f"{pointer} names the run {text}, which is not there any more: {again}.")
    except OSError as error:
        raise BadInput(f"{pointer} does not name a run inside {home} ({error.strerror}): {again}.") from error
    return named
