"""The page of a study's folder, without writing anything: for the server that shows it."""

from __future__ import annotations

from pathlib import Path

from levelfield.progress import SILENT, Progress
from levelfield.reports.finish import gathered, tuning_of
from levelfield.reports.leaks import crossings, with_leaks
from levelfield.reports.page.collect import Collected, collect
from levelfield.reports.robustness import robustness
from levelfield.studies.runs.folder.store import read_plan
from levelfield.studies.specification.yaml_file import read_study


def page_of(folder: Path, *, progress: Progress = SILENT) -> Collected:
    """The page of the study in `folder`, with the images and the run folders behind it."""
    runs, study = read_plan(folder), read_study(folder / "study.yaml")
    board = gathered(study, runs, folder)
    crossing = crossings(board, runs, folder, progress=progress)
    board = with_leaks(board, crossing, folder)
    robust = robustness(study, board, runs, folder)
    return collect(
        study, board, runs, folder, robust=robust, tuning=tuning_of(study), crossings=crossing, progress=progress
    )
