"""Images of classes that are not in the gallery: how many of them a threshold still matches with something.

Each query is searched without its own class, as if the gallery had no image of it. It is matched wrongly if the nearest
remaining image passes the threshold. The rate grows with the gallery, since more images can be near by chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from levelfield.errors import BadInput
from levelfield.evaluation.inputs import Array, Arrays, Inputs, check_inputs
from levelfield.evaluation.search.dense import similarities, similarity_blocks
from levelfield.evaluation.statistics.intervals import check_level, ends
from levelfield.evaluation.statistics.pair_rates import PairRate
from levelfield.progress import SILENT, Progress


@dataclass(frozen=True)
class Unknowns:
    """Share of the images that are matched although no image of their class is in the gallery, with its interval over
    classes (NaN: none requested, or fewer than 5 classes). `gallery`: images that were searched, with all classes."""

    value: float
    low: float
    high: float
    matched: int
    images: int
    classes: int
    gallery: int


@dataclass(frozen=True)
class _MatchRate(PairRate):
    """Share of wrong matches by class of the query.

    only: pairs of classes (matches, 2), the query's and the matched one, of matches that vanish without the latter.

    A class affects the rate through its own queries and through the queries that match it, so the variance over classes
    is the jackknife's, from the rate without each class. It counts what two classes do together (each matches the
    other) twice, so that part is subtracted once (Efron and Stein 1981).
    """

    only: Array

    @cached_property
    def moves(self) -> Array:
        """The jackknife's deviations, scaled for what it counts twice; never less than if only queries varied."""
        lost = np.bincount(self.only[:, 1], minlength=len(self.pairs))
        left = np.maximum(self.pairs.sum() - self.pairs, 1)
        without = (self.errors.sum() - self.errors - lost) / left
        deviations: Array = np.sqrt((len(without) - 1) / len(without)) * (without - without.mean())
        together = np.unique(np.sort(self.only, axis=1), axis=0, return_counts=True)[1] / self.pairs.sum()
        total, least = float(deviations @ deviations), float(super().moves @ super().moves)
        scale = math.sqrt(max(total - float(together @ together), least) / total) if total else 1.0
        return scale * deviations


def unknowns(
    embeddings: Arrays,
    labels: Arrays,
    *,
    threshold: float,
    gallery: Arrays | None = None,
    gallery_labels: Arrays | None = None,
    distance: str = "cosine",
    dim: int | None = None,
    ci: float | None = 0.95,
    progress: Progress = SILENT,
) -> Unknowns:
    """Rate of wrong matches of images whose class is not in the gallery.

    Costs one search. Memory: a copy of the rows and a few million similarities at a time. Arguments as in `evaluate`.

    Args:
        threshold: least cosine or inner product of a match, or largest distance or number of different bits.
        ci: confidence level of the interval over classes; None: no interval.
        progress: gets one stage, whose steps are queries.

    >>> rows = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.6, 0.8]])
    >>> rate = unknowns(rows, ["a", "a", "b", "c"], threshold=0.7)
    >>> rate.value, rate.matched  # b and c are near each other; the images of a are far from both
    (0.5, 2)
    """
    check_level(ci)
    inputs = check_inputs(embeddings, labels, gallery=gallery, gallery_labels=gallery_labels, dim=dim)
    if len(inputs.classes) < 2:
        raise BadInput("All embeddings are of one class; without it the gallery is empty. Two classes are needed.")
    least = threshold if distance in ("cosine", "dot") else -threshold
    classes, near = _two_nearest_classes(inputs, distance, progress)
    matched = near[:, 0] >= least
    images, wrong = (
        np.bincount(codes, minlength=len(inputs.classes)).astype(np.float64)
        for codes in (inputs.query_codes, inputs.query_codes[matched])
    )
    alone = matched & (near[:, 1] < least)
    only = np.stack([inputs.query_codes[alone], classes[alone]], axis=1)
    low, high = ends(None if ci is None else _MatchRate(wrong, images, 1, only).interval(ci))
    count = int(matched.sum())
    return Unknowns(count / len(matched), low, high, count, len(matched), int((images > 0).sum()), len(inputs.gallery))


def _two_nearest_classes(inputs: Inputs, distance: str, progress: Progress) -> tuple[Array, Array]:
    """Of each query the class of the nearest image of another class, and the similarities (queries, 2) of that image
    and of the nearest image of a third class, in float64; -inf where there is none."""
    codes = torch.from_numpy(inputs.gallery_codes).to(inputs.device)
    positions = np.zeros((len(inputs.query), 2), np.int64)
    absent = np.zeros(positions.shape, bool)
    stage = progress.stage("searching without the own class", len(inputs.query))
    for queries, values in similarity_blocks(inputs, distance=distance):
        gone = torch.from_numpy(inputs.query_codes[queries]).to(inputs.device)
        for column in range(2):
            best = values.masked_fill_(gone[:, None] == codes, -torch.inf).max(dim=1)
            positions[queries, column] = best.indices.cpu().numpy()
            absent[queries, column] = torch.isinf(best.values).cpu().numpy()
            gone = codes[best.indices]
        stage.advance(len(queries))
    near = np.where(absent, -np.inf, similarities(inputs, positions, distance))
    return inputs.gallery_codes[positions[:, 0]], near
