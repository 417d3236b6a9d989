"""Error rates of "same class" at every threshold, with intervals over classes, and the pairs nearest to one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from levelfield import embedder as networks
from levelfield.embedder.devices import requested, usable
from levelfield.errors import LevelfieldError
from levelfield.evaluation import same_or_not
from levelfield.evaluation.search.distances import unit_rows
from levelfield.evaluation.statistics import PairRate
from levelfield.progress import SILENT
from levelfield.randomness import numpy_stream
from levelfield.reports.page.content import Array, Intervals, Pair, Point, Threshold
from levelfield.reports.page.image_set import ImageSet
from levelfield.reports.page.sections.neighbour_lists import SearchResult
from levelfield.studies.runs.finished import how_refined
from levelfield.studies.runs.folder.store import spec_at_its_place
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.joined.members import spec_of
from levelfield.trust import trusting

VALIDATION, TEST = "validation classes", "test classes (optimistic)"
_SHOWN = 12  # pairs of one class, and of two classes, on each side of the threshold
_NEEDED = 2 * _SHOWN  # of them: either image of a pair may be the query
_SAMPLE = 500, 5_000  # queries and images whose pairs are candidates
_LEVEL = 0.95


def threshold_of(
    result: SearchResult, rows: Array, images: ImageSet, chosen_on_validation: float | None
) -> Threshold | None:
    """The curves of one method on the test classes; None if there are no pairs of one of the two kinds.

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
    above, below = _near(value, rows, images)
    return Threshold(
        value=value,
        source=TEST if chosen_on_validation is None else VALIDATION,
        grid=_rounded(result.edges),
        false_accept=_rounded(accept),
        false_reject=_rounded(reject),
        intervals=_intervals(result, same, other) if images.asked is None else None,
        above=above,
        below=below,
    )


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


def _intervals(result: SearchResult, same: Array, other: Array) -> Intervals | None:
    """Intervals over classes; None if too few classes have pairs. A search of all images counts each pair twice."""
    assert result.same is not None
    assert result.other is not None
    accept = [_ends(PairRate(wrong, other, 2)) for wrong in result.other.T]
    reject = [_ends(PairRate((same - right) / 2, same / 2, 1)) for right in result.same.T]
    known = [one for one in accept if one is not None], [one for one in reject if one is not None]
    return Intervals(*known) if len(known[0]) == len(known[1]) == len(accept) else None


def _ends(rate: PairRate) -> Point | None:
    interval = rate.interval(_LEVEL)
    return None if interval is None else (_round(interval.low), _round(interval.high))


def _near(value: float, rows: Array, images: ImageSet) -> tuple[list[Pair], list[Pair]]:
    """The pairs nearest above and below the threshold, half of them of one class, in order of similarity."""
    queries, gallery = (_some(of, most) for of, most in zip((images.queries, images.gallery), _SAMPLE, strict=True))
    others = unit_rows(np.asarray(rows[gallery]))
    kept: dict[tuple[bool, bool], list[Pair]] = {(above, same): [] for above in (True, False) for same in (True, False)}
    bounds = dict.fromkeys(kept, np.inf)  # pairs further from the threshold are not needed
    for start in range(0, len(queries), 100):
        part = queries[start : start + 100]
        near = unit_rows(np.asarray(rows[part])) @ others.T
        far = np.abs(near - value)
        lines, columns = np.nonzero(far <= max(bounds.values()))
        near, far = near[lines, columns], far[lines, columns]
        first, second = part[lines], gallery[columns]
        one_class = images.codes[first] == images.codes[second]
        for above, same in kept:
            mask = (first != second) & (one_class == same) & ((near >= value) == above)
            spots = np.flatnonzero(mask & (far <= bounds[above, same]))
            if len(spots) > _NEEDED:
                spots = spots[np.argpartition(far[spots], _NEEDED)[:_NEEDED]]
                bounds[above, same] = float(far[spots].max())
            pairs = first[spots].tolist(), second[spots].tolist(), near[spots].tolist()
            kept[above, same] += [(one, other, _round(cosine)) for one, other, cosine in zip(*pairs, strict=True)]
    sides = []
    for above in (True, False):
        best = [pair for same in (True, False) for pair in _first(kept[above, same], value)]
        sides.append(sorted(best, key=lambda pair: (-pair[2], pair)))
    return sides[0], sides[1]


def _some(numbers: Array, most: int) -> Array:
    """At most so many of the numbers, drawn at random, ascending."""
    if len(numbers) <= most:
        return numbers
    return np.sort(numpy_stream(0, "page", "pairs", most).choice(numbers, most, replace=False))


def _first(pairs: list[Pair], value: float) -> list[Pair]:
    """The pairs nearest to the value, each once, whichever of its images was the query."""
    once = {(min(pair[:2]), max(pair[:2])): pair for pair in pairs}
    return sorted(once.values(), key=lambda pair: (abs(pair[2] - value), pair))[:_SHOWN]


def _round(value: float) -> float:
    return float(f"{value:.4g}") if abs(value) < 0.1 else round(value, 5)


def _rounded(values: Array) -> list[float]:
    return [_round(float(value)) for value in values]


@trusting()
def validation_threshold(folder: Path) -> float | None:
    """The cosine with equal error rates on the validation classes of the run in `folder`.

    None: the run has no validation classes, its images are gone, their features are not in the cache, or the run's
    model alone cannot repeat its embeddings. The test classes choose then, and the page says so.
    """
    try:
        device = usable(requested())
        inputs = inputs_for(spec_at_its_place(folder, spec_of(folder)), None, device)
        chosen = inputs.fold.validation
        if not len(chosen) or not inputs.is_cached or how_refined(folder):
            return None
        if inputs.missing(chosen, inputs.views[1], 0):
            return None
        model = networks.load(folder, device=device)
        if not isinstance(model, networks.Model):
            return None
        rows = inputs.embed(model.embedder, chosen, SILENT)
        names = np.array(inputs.catalog.class_names)[inputs.catalog.labels[chosen]]
        return same_or_not(rows, names, ci=None).value
    except LevelfieldError:
        return None
