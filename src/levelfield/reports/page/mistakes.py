"""Mistakes of the methods and of the data: confused classes, likely label errors, duplicates, leaks."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

import numpy as np

from levelfield.data.checks.leaks import BITS, RADIUS, Leaks
from levelfield.reports.page.content import Data
from levelfield.reports.page.image_set import ImageSet, Seen
from levelfield.reports.page.neighbour_lists import SearchResult

MAX_MISTAKES = 200  # pairs of classes; images of each kind of mistake
_VOTERS = 5  # nearest images that vote
_NEEDED = 3  # of them, for one class
_ROWS = 1024  # hashes compared with all others at a time
_COLOURS = 6.0  # mean difference of colours, of 255; recompressed and scaled copies differ by 1 to 3
_SAME = 0.05
_PAIRS = 10_000  # pairs of such a block: a set in which all images are equal has millions


def by_class(result: SearchResult, images: ImageSet) -> Data:
    """Recall of each class among queries that have a positive (NaN: none), and the most frequent confusions."""
    actual, near = images.codes[result.queries], images.codes[result.neighbours[:, 0]]
    counts = result.first_right > 0
    asked = np.bincount(actual[counts], minlength=len(images.classes))
    right = np.bincount(actual[counts & (actual == near)], minlength=len(images.classes))
    recall = np.where(asked > 0, right / np.maximum(asked, 1), np.nan).astype(np.float32)
    wrong = counts & (actual != near)
    pairs = Counter(zip(actual[wrong].tolist(), near[wrong].tolist(), strict=True))
    return {"recall": recall, "taken_for": [(*pair, count) for pair, count in pairs.most_common(MAX_MISTAKES)]}


def label_errors(results: Sequence[SearchResult], images: ImageSet) -> list[Data]:
    """Images whose nearest images are of one other class, according to at least half of two or more methods.

    A method votes for a class with `_NEEDED` of the `_VOTERS` nearest images if none of them is of the query's own.
    """
    if len(results) < 2:
        return []
    votes: Counter[tuple[int, int]] = Counter()
    step = _NEEDED - 1  # in a sorted row, `_NEEDED` equal numbers are adjacent
    for result in results:
        near = np.sort(images.codes[result.neighbours[:, :_VOTERS]], axis=1)
        if near.shape[1] < _NEEDED:
            continue
        runs = near[:, step:] == near[:, : near.shape[1] - step]
        winner = near[np.arange(len(near)), runs.argmax(axis=1)]
        kept = runs.any(axis=1) & ~(near == images.codes[result.queries, None]).any(axis=1)
        votes.update(zip(result.queries[kept].tolist(), winner[kept].tolist(), strict=True))
    needed = max(2, -(-len(results) // 2))
    return [
        {"image": image, "says": says, "votes": count, "of": len(results)}
        for (image, says), count in votes.most_common(MAX_MISTAKES)
        if count >= needed
    ]


def duplicates(seen: Seen, images: ImageSet) -> list[Data]:
    """Pairs of test images with nearly equal perceptual hashes and colours, those of different classes first."""
    near_pairs: list[Data] = []
    signs = (2.0 * seen.hashes - 1.0).astype(np.float32)
    for top in range(0, len(signs), _ROWS):
        products = signs[top : top + _ROWS] @ signs.T
        rows, columns = np.nonzero(products >= BITS - 2 * RADIUS)
        later = columns > rows + top  # each pair once
        rows, columns = rows[later][:_PAIRS], columns[later][:_PAIRS]
        apart = np.abs(seen.tiny[rows + top].astype(np.float32) - seen.tiny[columns]).mean(axis=(1, 2, 3))
        near = apart <= _COLOURS
        pairs = zip(seen.hashed[rows[near] + top].tolist(), seen.hashed[columns[near]].tolist(), strict=True)
        for (first, second), levels in zip(pairs, apart[near].tolist(), strict=True):
            text = "the same picture" if levels < _SAME else f"colours differ by {levels:.1f} of 255 on average"
            near_pairs.append({"first": first, "second": second, "distance": round(levels, 2), "text": text})
    codes = images.codes
    near_pairs.sort(key=lambda pair: (codes[pair["first"]] == codes[pair["second"]], pair["distance"], pair["first"]))
    return near_pairs[:MAX_MISTAKES]


def leaks_of(leaks: Leaks | None, images: ImageSet) -> list[Data]:
    """Test images that are in the training part, too, from the leak check of the study."""
    if leaks is None:
        return []
    numbers = {os.path.abspath(path): number for number, path in enumerate(images.paths)}
    leaked = []
    for pair in leaks.pairs:
        image = numbers.get(os.path.abspath(pair.test))
        if image is not None:
            text = f"{pair.caption.split(';')[0]}: {pair.train.name} of the training part ({pair.train_class})"
            leaked.append({"image": image, "text": text})
    return leaked[:MAX_MISTAKES]
