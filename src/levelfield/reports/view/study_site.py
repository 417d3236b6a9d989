"""A study as the server shows it: its page with live search, its images, and the runs that can be searched."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from levelfield.embedder.model_files import DESCRIPTION
from levelfield.errors import BadInput
from levelfield.progress import SILENT, Progress
from levelfield.reports.finish import gathered, tuning_of
from levelfield.reports.page.collect import Stored, collect, stored_sets
from levelfield.reports.page.content import Live
from levelfield.reports.page.image_set import image_set
from levelfield.reports.page.make import made_of
from levelfield.reports.page.write import FILE, data_html, is_made_of, plain, policy, read_data
from levelfield.reports.robustness import robustness
from levelfield.reports.split_leaks import crossings, with_leaks
from levelfield.reports.view.finder import Within
from levelfield.reports.view.site import Searched, Site, TestImages
from levelfield.studies.runs.finished import how_refined
from levelfield.studies.runs.folder.store import read_plan
from levelfield.studies.specification.yaml_file import read_study


def read_site(folder: Path, token: str, *, progress: Progress = SILENT) -> Site:
    """The site of the study in `folder`. Nothing is trained, and nothing is written.

    The data of the study's report.html are used if they are those of its runs, and computed otherwise.
    """
    runs, study = read_plan(folder), read_study(folder / "study.yaml")
    board = gathered(study, runs, folder)
    sets, notes = stored_sets(board)
    if not sets:
        raise BadInput(f"No run of {folder} has test embeddings, so there is nothing to search. {notes[0]}")
    crossing = crossings(board, runs, folder, progress=progress)
    board = with_leaks(board, crossing, folder, folder)
    if is_made_of(folder / FILE, made_of(board, study)):
        data = read_data(folder / FILE)
    else:
        robust, tuned = robustness(study, board, runs, folder), tuning_of(study)
        page = collect(study, board, runs, folder, robust=robust, tuning=tuned, crossings=crossing, progress=progress)
        data = plain(page)
    return site_of(data, sets, token)


def site_of(data: Mapping[str, Any], sets: Sequence[Stored], token: str) -> Site:
    """The site that shows a page, given as JSON. sets: the test sets of its study, in the same order."""
    labels = [row["label"] for row in data["rows"]]
    folders = {label: run for one in sets for label, run in one.folders.items()}
    able = [number for number, label in enumerate(labels) if label in folders and _can_embed(folders[label])]
    live = {**data, "live": plain(Live(token, able))}
    tests = [_images(test, one, labels) for test, one in zip(data["tests"], sets, strict=True)]
    page = data_html(json.dumps(live, separators=(",", ":")), str(data["study"]), live=True)
    return Site(page.encode(), policy(live=True), tests)


def _can_embed(run: Path) -> bool:
    """Whether the run's model can embed a new image."""
    return (run / DESCRIPTION).is_file() and not how_refined(run)


def _images(test: Mapping[str, Any], stored: Stored, labels: Sequence[str]) -> TestImages:
    paths = image_set(stored.items, next(iter(stored.folders.values()))).paths
    gallery = None if stored.items.roles is None else ~stored.items.queries
    methods = []
    for method in test["methods"]:
        threshold = None if method["threshold"] is None else float(method["threshold"]["value"])
        within = Within(stored.folders[labels[method["row"]]], gallery, str(method["distance"]))
        methods.append(Searched(within, threshold))
    return TestImages(paths, methods)
