"""Keep a leaderboard that another study of the same name would replace."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from levelfield.errors import BadInput, LevelfieldError
from levelfield.studies.runs.folder.store import read_plan
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.yaml_file import read_study

EARLIER = "earlier"
_LAST = "runs.json"  # moved last: after an interruption the move is repeated


def keep_earlier(folder: Path, runs: Sequence[PlannedRun], metrics: Sequence[str]) -> Path | None:
    """Move the files of another study's leaderboard in `folder` to a folder of their own, and return it.

    More methods, seeds or metrics extend a study: its new leaderboard includes the old one, so nothing is moved. Runs
    stay where they are: comparing the earlier study again restores its leaderboard.
    """
    if not (folder / _LAST).is_file() or _extends(folder, runs, metrics):
        return None
    if (folder / EARLIER).is_symlink():
        raise BadInput(
            f"{folder / EARLIER} is a link: the earlier leaderboard would be moved out of the study's folder."
        )
    kept = next(candidate for number in range(1, 100_000) if not (candidate := folder / EARLIER / str(number)).exists())
    kept.mkdir(parents=True)
    files = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    for path in sorted(files, key=lambda path: path.name == _LAST):
        os.replace(path, kept / path.name)
    return kept


def kept_text(folder: Path, kept: Path) -> str:
    return (
        f"{folder} held the leaderboard of another study (other conditions, rows or metrics), which is now in {kept}. "
        "To keep both in place, give one of them another name: name=..."
    )


def _extends(folder: Path, runs: Sequence[PlannedRun], metrics: Sequence[str]) -> bool:
    """Whether the study has all runs and metrics of the one in the folder."""
    try:
        before, measured = read_plan(folder), read_study(folder / "study.yaml").metrics
    except LevelfieldError:  # unreadable: not this study
        return False
    now = {_place(run) for run in runs}
    return {_place(run) for run in before} <= now and set(measured) <= set(metrics)


def _place(run: PlannedRun) -> tuple[str, str]:
    return run.row, run.spec.folder_name
