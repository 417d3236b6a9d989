"""What the server shows: the page, its images, the neighbours of an image or of an uploaded one."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from levelfield.data.files.images import decode_image, read_image
from levelfield.errors import UnreadableImage
from levelfield.reports.view.addresses import Asked, Refused
from levelfield.reports.view.finder import Finder, Within

_SIDES = 2048  # pixels: the longest side of an image that is sent
_NEIGHBOURS, _MOST_NEIGHBOURS = 50, 1_000
_PIXELS = 50_000_000  # of an uploaded image: decoding takes about 12 bytes for each

One = TypeVar("One")


@dataclass(frozen=True)
class Searched:
    """A method that can be searched. threshold: the least similarity of images that count as the same class."""

    within: Within
    threshold: float | None = None


@dataclass(frozen=True)
class TestImages:
    """A test set of the page: its files, and the methods that embedded them."""

    __test__ = False  # not a test case

    paths: Sequence[Path]
    methods: Sequence[Searched]


@dataclass(frozen=True)
class Answer:
    """The content of a response."""

    kind: str
    content: bytes
    policy: str = "default-src 'none'"
    lasting: bool = False


@dataclass(frozen=True)
class Site:
    """Answers requests about one study. `policy`: the Content-Security-Policy of its page."""

    page: bytes
    policy: str
    tests: Sequence[TestImages]
    finder: Finder = field(default_factory=Finder)

    def answer(self, asked: Asked, body: Callable[[], bytes]) -> Answer:
        """The answer to a request. body: reads the uploaded bytes."""
        if asked.what == "page":
            return Answer("text/html; charset=utf-8", self.page, self.policy)
        test = _at(self.tests, asked.numbers[0], "test set")
        if asked.what == "image":
            return self._image(_at(test.paths, asked.numbers[1], "image"), asked.option or _SIDES)
        method = _at(test.methods, asked.numbers[1], "method")
        k = min(asked.option or _NEIGHBOURS, _MOST_NEIGHBOURS)
        if asked.what == "neighbours":
            _at(test.paths, asked.numbers[2], "image")
            positions, similarity = self.finder.of_image(method.within, asked.numbers[2], k)
            return _as_json(neighbours=positions, similarity=similarity)
        return self._search(method, k, body)

    def _image(self, path: Path, side: int) -> Answer:
        """The image as JPEG, at most `side` pixels wide and high."""
        written = io.BytesIO()
        try:
            image = read_image(path)
            image.thumbnail((min(side, _SIDES),) * 2)
            image.save(written, "JPEG", quality=90)
        except UnreadableImage as error:
            raise Refused(404, str(error)) from error
        return Answer("image/jpeg", written.getvalue(), lasting=True)

    def _search(self, method: Searched, k: int, body: Callable[[], bytes]) -> Answer:
        image = decode_image(body(), name="the uploaded image", most_pixels=_PIXELS)
        positions, similarity = self.finder.of_picture(method.within, image, k)
        same = None if method.threshold is None else [value >= method.threshold for value in similarity]
        return _as_json(neighbours=positions, similarity=similarity, same=same, threshold=method.threshold)


def _at(entries: Sequence[One], number: int, what: str) -> One:
    if number >= len(entries):
        raise Refused(404, f"There is no {what} {number}: the page has {len(entries):,}.")
    return entries[number]


def _as_json(**content: object) -> Answer:
    return Answer("application/json", json.dumps(content, allow_nan=False).encode())
