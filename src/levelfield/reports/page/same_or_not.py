"""Error rates of "same class" at every threshold, with intervals over classes, and the pairs nearest to one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import numpy as np

from levelfield.errors import LevelfieldError
from levelfield.evaluation import same_or_not
from levelfield.evaluation.search.distances import unit_rows
from levelfield.evaluation.statistics.pair_rates import PairRate
from levelfield.randomness import numpy_stream
from levelfield.reports.page.content import Array, Data
from levelfield.reports.page.image_set import ImageSet
from levelfield.reports.page.neighbour_lists import SearchResult
from levelfield.studies.runs.finished import embed_part

Pair: TypeAlias = tuple[int, int, float]  # two images and their cosine
VALIDATION, TEST = "validation classes", "test classes (optimistic)"
_SHOWN = 12  # pairs of one class, and of two classes, on each side of the threshold
_NEEDED = 2 * _SHOWN  # of them: either image of a pair may be the query
_SAMPLE = 500, 5_000  # queries and images whose pairs are candidates
_LEVEL = 0.95


def threshold_of(
    result: SearchResult, rows: Array, images: ImageSet, chosen_on_validation: float | None
) -> Data | None:
    """Error rates of one method at each threshold of `grid` on the test classes, with intervals over classes, and the
    pairs (image, image, cosine) just above and below `value`; None if there are no pairs of one of the two kinds.

    chosen_on_validation: the threshold that the validation classes chose; None: the test classes choose it.
    """
    if result.edges is None or result.same is None or result.other is None or result.pairs is None:
        return None
    same, other = result.pairs
    if not same.sum() or not other.sum():
        return None
    accept = result.other.sum(0) / other.sum()
    reject = 1 - result.same.sum(0) / same.sum()
    value = _crossing(result.edges, accept, reject) if chosen_on_validation is None else chosen_on_validation
    intervals = None
    if images.asked is None:  # a search of all images counts each pair twice
        of_accept = [PairRate(wrong, other, 2).interval(_LEVEL) for wrong in result.other.T]
        of_reject = [PairRate((same - right) / 2, same / 2, 1).interval(_LEVEL) for right in result.same.T]
        if None not in of_accept and None not in of_reject:  # too few classes have pairs
            ends = [
                [_short([interval.low, interval.high]) for interval in rates if interval]
                for rates in (of_accept, of_reject)
            ]
            intervals = dict(zip(("false_accept", "false_reject"), ends, strict=True))
    above, below = _near(value, rows, images)
    return {
        "value": value,
        "source": TEST if chosen_on_validation is None else VALIDATION,
        "grid": _short(result.edges),
        "false_accept": _short(accept),
        "false_reject": _short(reject),
        "intervals": intervals,
        "above": above,
        "below": below,
    }


def _crossing(edges: Array, accept: Array, reject: Array) -> float:
    """Where both error rates are equal, between two edges if need be.

    >>> _crossing(np.array([0.0, 0.5, 1.0]), np.array([1.0, 0.3, 0.0]), np.array([0.0, 0.1, 0.6]))
    0.625
    """
    past = int((reject >= accept).argmax()) if (reject >= accept).any() else len(edges) - 1
    if past == 0 or reject[past] < accept[past]:
        return float(edges[past])
    before, after = (accept[k] - reject[k] for k in (past - 1, past))
    share = before / (before - after) if before > after else 1.0
    return float(edges[past - 1] + share * (edges[past] - edges[past - 1]))


def _near(value: float, rows: Array, images: ImageSet) -> tuple[list[Pair], list[Pair]]:
    """The pairs nearest above and below the threshold, half of them of one class, in order of similarity."""
    queries, gallery = (_some(of, most) for of, most in zip((images.queries, images.gallery), _SAMPLE, strict=True))
    cosines = unit_rows(np.asarray(rows[queries])) @ unit_rows(np.asarray(rows[gallery])).T
    one_class = images.codes[queries, None] == images.codes[gallery]
    others = queries[:, None] != gallery
    sides: list[list[Pair]] = []
    for side in (cosines >= value, cosines < value):
        pairs: list[Pair] = []
        for kind in (one_class, ~one_class):
            far = np.where(others & side & kind, np.abs(cosines - value), np.inf).ravel()
            nearest = np.argpartition(far, min(_NEEDED, far.size - 1))[:_NEEDED]
            lines, columns = np.divmod(nearest[np.isfinite(far[nearest])], len(gallery))
            images_of = queries[lines].tolist(), gallery[columns].tolist()
            once = {}  # each pair, whichever of its images was the query
            for first, second, cosine in zip(*images_of, _short(cosines[lines, columns]), strict=True):
                once[min(first, second), max(first, second)] = first, second, cosine
            pairs += sorted(once.values(), key=lambda pair: (abs(pair[2] - value), pair))[:_SHOWN]
        sides.append(sorted(pairs, key=lambda pair: (-pair[2], pair)))
    return sides[0], sides[1]


def _some(numbers: Array, most: int) -> Array:
    """Sorted random sample of at most `most` numbers."""
    if len(numbers) <= most:
        return numbers
    return np.sort(numpy_stream(0, "page", "pairs", most).choice(numbers, most, replace=False))


def _short(values: Iterable[float]) -> list[float]:
    """Five significant digits: the page is a text."""
    return [float(f"{value:.5g}") for value in values]


def validation_threshold(folder: Path) -> float | None:
    """The cosine with equal error rates on the validation classes of the run in `folder`.

    None: the run has no validation classes, its images are gone, their features are not in the cache, or the run's
    model alone cannot repeat its embeddings. The test classes choose then, and the page says so.
    """
    try:
        return same_or_not(*embed_part(folder, "validation", cached=True), ci=None).value
    except LevelfieldError:
        return None
