"""What the server shows of a study: its page with live search, its images, and the neighbours of any image."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from levelfield import embedder
from levelfield.data.images import decode_image, read_image
from levelfield.embedder.devices import requested
from levelfield.embedder.model_files import DESCRIPTION
from levelfield.errors import BadInput, LevelfieldError, UnreadableImage
from levelfield.evaluation.inputs import Inputs, check_inputs
from levelfield.files.reading import damaged
from levelfield.progress import SILENT, Progress
from levelfield.reports.finish import gathered, tuning_of
from levelfield.reports.page.collect import collect, made_of
from levelfield.reports.page.image_set import ImageSet, Stored, image_set, stored_sets
from levelfield.reports.page.write import FILE, is_made_of, page_html, policy, read_data
from levelfield.reports.report import Report
from levelfield.reports.robustness import robustness
from levelfield.reports.split_leaks import crossings, with_leaks
from levelfield.studies.runs.finished import how_refined, stored_test
from levelfield.studies.runs.folder.store import read_plan
from levelfield.studies.specification.yaml_file import read_study

if TYPE_CHECKING:
    from PIL import Image

_SIDES = 2048  # pixels: the longest side of an image that is sent
_NEIGHBOURS, _MOST_NEIGHBOURS = 50, 1_000
_PIXELS = 50_000_000  # of an uploaded image: decoding takes about 12 bytes for each
_MODELS, _TABLES = 3, 30  # kept in memory; the rows of a table stay on disk

Item = TypeVar("Item")


class Refused(LevelfieldError):
    """A request that is answered with an HTTP error: correct the request."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Asked(NamedTuple):
    """What a request asks for: `page`, `image`, `neighbours` or `search`, with its numbers."""

    what: str
    numbers: tuple[int, ...] = ()
    option: int | None = None


@dataclass(frozen=True)
class Answer:
    """The content of a response."""

    kind: str
    content: bytes
    policy: str = "default-src 'none'"
    lasting: bool = False


@dataclass(frozen=True)
class Searched:
    """A run that can be searched. threshold: the least similarity of images that count as the same class."""

    run: Path
    distance: str = "cosine"
    threshold: float | None = None


def _nearest(images: ImageSet, inputs: Inputs, distance: str, k: int) -> tuple[list[int], list[float]]:
    near = images.nearest(inputs, k, distance=distance)
    return near.positions[0].tolist(), near.similarities[0].tolist()


def _model(run: Path) -> embedder.Model | embedder.Ensemble:
    if refined := how_refined(run):
        raise BadInput(
            f"This method refines its embeddings at test time ({refined}), which its stored model cannot repeat "
            "for one image. Choose another method."
        )
    return embedder.load(run, device=requested())


class Site:
    """Answers requests about one study, by exact search among the stored embeddings of its runs.

    policy: the Content-Security-Policy of the page. tests: for each test set its images, and the runs that embedded it.
    Models and rows are read when they are first needed.
    """

    def __init__(self, page: bytes, policy: str, tests: Sequence[tuple[ImageSet, Sequence[Searched]]]) -> None:
        self.page, self.policy, self.tests = page, policy, tests
        self._rows = lru_cache(_TABLES)(lambda run: stored_test(run)[0])
        self._models = lru_cache(_MODELS)(_model)
        self._turn = threading.Lock()  # one picture at a time is embedded

    def answer(self, asked: Asked, body: bytes) -> Answer:
        """The answer to a request. body: the uploaded bytes."""
        if asked.what == "page":
            return Answer("text/html; charset=utf-8", self.page, self.policy)
        images, methods = _at(self.tests, asked.numbers[0], "test set")
        if asked.what == "image":
            return _image(_at(images.paths, asked.numbers[1], "image"), asked.option or _SIDES)
        method = _at(methods, asked.numbers[1], "method")
        k = min(asked.option or _NEIGHBOURS, _MOST_NEIGHBOURS)
        if asked.what == "neighbours":
            _at(images.paths, asked.numbers[2], "image")
            positions, similarity = self.of_image(images, method, asked.numbers[2], k)
            return _as_json(neighbours=positions, similarity=similarity)
        picture = decode_image(body, name="the uploaded image", most_pixels=_PIXELS)
        positions, similarity = self.of_picture(images, method, picture, k)
        same = None if method.threshold is None else [value >= method.threshold for value in similarity]
        return _as_json(neighbours=positions, similarity=similarity, same=same, threshold=method.threshold)

    def of_image(self, images: ImageSet, method: Searched, number: int, k: int) -> tuple[list[int], list[float]]:
        """The k nearest images to a test image, itself excluded, and their similarities."""
        return _nearest(images, images.inputs(self._rows(method.run), np.array([number])), method.distance, k)

    def of_picture(
        self, images: ImageSet, method: Searched, picture: Image.Image, k: int
    ) -> tuple[list[int], list[float]]:
        """The k nearest images to any picture, embedded by the run's model, and their similarities."""
        with self._turn:
            row = self._models(method.run).embed(picture, normalize=False, exact=False)
        rows, codes = self._rows(method.run)[images.gallery], images.codes[images.gallery]
        return _nearest(images, check_inputs(row, [0], gallery=rows, gallery_labels=codes), method.distance, k)


def _image(path: Path, side: int) -> Answer:
    """The image as JPEG, at most `side` pixels wide and high."""
    written = io.BytesIO()
    try:
        image = read_image(path)
        image.thumbnail((min(side, _SIDES),) * 2)
        image.save(written, "JPEG", quality=90)
    except UnreadableImage as error:
        raise Refused(404, str(error)) from error
    return Answer("image/jpeg", written.getvalue(), lasting=True)


def _at(entries: Sequence[Item], number: int, what: str) -> Item:
    if number >= len(entries):
        raise Refused(404, f"There is no {what} {number}: the page has {len(entries):,}.")
    return entries[number]


def _as_json(**content: object) -> Answer:
    return Answer("application/json", json.dumps(content, allow_nan=False).encode())


def read_site(folder: Path, token: str, *, progress: Progress = SILENT) -> Site:
    """The site of the study in `folder`. Nothing is trained, and nothing is written.

    The data of the study's report.html are used if they are those of its runs, and computed otherwise.
    """
    runs, study = read_plan(folder), read_study(folder / "study.yaml")
    board = gathered(study, runs, folder)
    sets, notes = stored_sets(board.rows)
    if not sets:
        raise BadInput(f"No run of {folder} has test embeddings, so there is nothing to search. {notes[0]}")
    crossing = crossings(board, runs, folder, progress=progress)
    board = with_leaks(board, crossing, folder, folder)
    if is_made_of(folder / FILE, made_of(board, study)):
        data = read_data(folder / FILE)
    else:
        report = Report(board, robustness(study, board, runs, folder), [], tuning=tuning_of(study))
        data = collect(report, study, runs, folder, crossings=crossing, progress=progress)
    folders = {label: run for stored in sets for label, run in stored.folders.items()}
    try:
        labels = [str(row["label"]) for row in data["rows"]]
        methods = [_searched(test, stored, labels) for test, stored in zip(data["tests"], sets, strict=True)]
        runs_that_embed = [
            number
            for number, label in enumerate(labels)
            if label in folders and (folders[label] / DESCRIPTION).is_file() and not how_refined(folders[label])
        ]
        page = page_html({**data, "study": study.name, "live": {"token": token, "runs": runs_that_embed}})
    except (IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        remedy = f"write it again: levelfield report {folder} --page"
        raise damaged(folder / FILE, f"does not have the data of the study's runs; {remedy}") from error
    return Site(page.encode(), policy(live=True), list(zip(map(image_set, sets), methods, strict=True)))


def _searched(test: dict[str, Any], stored: Stored, labels: list[str]) -> list[Searched]:
    """The runs of a test set of the page."""
    searched = []
    for method in test["methods"]:
        threshold = None if method["threshold"] is None else float(method["threshold"]["value"])
        searched.append(Searched(stored.folders[labels[method["row"]]], str(method["distance"]), threshold))
    return searched
