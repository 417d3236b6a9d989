"""A study as the server shows it: its page with live search, its images, and the runs that can be searched."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from levelfield.embedder.model_files import DESCRIPTION
from levelfield.errors import BadInput
from levelfield.progress import SILENT, Progress
from levelfield.reports.against_published import with_published
from levelfield.reports.leaks import crossings, with_leaks
from levelfield.reports.page.collect import Collected, collect
from levelfield.reports.page.data import Embedded, Live, TestSet
from levelfield.reports.page.write import page_html
from levelfield.reports.robustness import robustness
from levelfield.reports.tuning import tuning_table
from levelfield.reports.view.search import Within
from levelfield.reports.view.site import Searched, Site, TestImages
from levelfield.studies.leaderboard.board import gather
from levelfield.studies.runs.finished import how_refined
from levelfield.studies.runs.folder.files import EMBEDDINGS
from levelfield.studies.runs.folder.store import read_plan
from levelfield.studies.specification.yaml_file import read_study

_POLICY = re.compile('<meta http-equiv="Content-Security-Policy" content="([^"]+)">')


def read_site(folder: Path, token: str, *, progress: Progress = SILENT) -> Site:
    """The site of the study in `folder`. Nothing is trained, and nothing is written."""
    runs, study = read_plan(folder), read_study(folder / "study.yaml")
    board = gather(study.name, runs, folder, study.metrics, claims=study.claims)
    board = with_published(board, runs)
    if not any((Path(row.first_run) / EMBEDDINGS).is_file() for row in board.rows):
        raise BadInput(
            f"The runs of {folder} have no test embeddings, so there is nothing to look at: they were trained on every "
            "class, or their files are gone. `levelfield report` shows their scores."
        )
    crossing = crossings(board, runs, folder, progress=progress)
    board = with_leaks(board, crossing, folder, folder)
    tuned = None if study.tuning is None else study.tuning.of({method.label for method in study.methods})
    found = collect(
        study,
        board,
        runs,
        folder,
        robust=robustness(study, board, runs, folder),
        tuning=None if tuned is None else tuning_table(tuned),
        crossings=crossing,
        progress=progress,
    )
    return site_of(found, token)


def site_of(found: Collected, token: str) -> Site:
    """The site that shows a page."""
    page = found.page
    runs = {
        method.row: run
        for test, folders in zip(page.tests, found.folders, strict=True)
        for method, run in zip(test.methods, folders, strict=True)
    }
    live = Live(token, [row for row, run in sorted(runs.items()) if _can_embed(run)])
    written = page_html(replace(page, live=live))
    policy = _POLICY.search(written)
    assert policy is not None, "the page has a Content-Security-Policy"
    tests = [_images(test, runs, images.paths) for test, images in zip(page.tests, found.images, strict=True)]
    return Site(written.encode(), html.unescape(policy[1]), tests)


def _can_embed(run: Path) -> bool:
    """Whether the run's model can embed a new image."""
    return (run / DESCRIPTION).is_file() and not how_refined(run)


def _images(test: TestSet, runs: Mapping[int, Path], paths: Sequence[Path]) -> TestImages:
    gallery = None if test.gallery is None else test.gallery.astype(np.bool_)
    return TestImages(paths, [_searched(method, runs[method.row], gallery) for method in test.methods])


def _searched(method: Embedded, run: Path, gallery: np.ndarray | None) -> Searched:
    threshold = None if method.threshold is None else method.threshold.value
    return Searched(Within(run, gallery, method.distance), threshold)
