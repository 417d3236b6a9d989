"""Scores of an ensemble: of each member, their mean (separated), and of the joined embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from levelfield.evaluation import evaluate
from levelfield.evaluation.statistics import class_interval
from levelfield.progress import Progress
from levelfield.studies.runs.folder.items import Items
from levelfield.studies.runs.folder.store import Result, class_means
from levelfield.studies.runs.joined.members import Member

_Score = tuple[float, tuple[np.ndarray, np.ndarray] | None]  # a metric, and its means and counts of classes, if any


@dataclass(frozen=True)
class Figure:
    """A score with its interval over test classes; None if the metric has no value per query."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Separated:
    """Scores by metric: of each member, their mean, and of the joined embeddings.

    The interval of the mean is over classes, like the others, and does not cover retraining.
    """

    members: list[dict[str, Figure]]
    separated: dict[str, Figure]
    joined: dict[str, Figure]


def separate(members: Sequence[Member], together: Result, metrics: Sequence[str], *, progress: Progress) -> Separated:
    """Compare an ensemble with its members. Missing scores, or those with another definition, are computed now."""
    alone = []
    stage = progress.stage("evaluating members", len(members))
    for member in members:
        alone.append(_scores(member, together, metrics))
        stage.advance()
    return Separated(
        [{name: _figure([scores[name]]) for name in metrics} for scores in alone],
        {name: _figure([scores[name] for scores in alone]) for name in metrics},
        {name: _figure([(together.values[name], together.by_class.get(name))]) for name in metrics},
    )


def _scores(member: Member, together: Result, metrics: Sequence[str]) -> dict[str, _Score]:
    own = member.result
    definitions = {name: signature["definition"] for name, signature in own.signatures.items()}
    stored = [name for name in metrics if definitions.get(name) == together.signatures[name]["definition"]]
    scores: dict[str, _Score] = {name: (own.values[name], own.by_class.get(name)) for name in stored}
    missing = [name for name in metrics if name not in stored]
    if missing:
        arrays = Items.read(member.folder).arrays(member.rows, member.labels)  # with the gallery, if there is one
        result = evaluate(**arrays, metrics=missing)
        labels = arrays["labels"][result.counted]
        for name in missing:
            queries = result.per_query.get(name)
            scores[name] = result[name], None if queries is None else class_means(queries[result.counted], labels)
    return scores


def _figure(scores: Sequence[_Score]) -> Figure:
    value = separated(value for value, _ in scores)
    classes = [by_class for _, by_class in scores if by_class is not None]
    if len(classes) < len(scores) or not len(classes[0][0]):
        return Figure(value)
    interval = class_interval(np.stack([means for means, _ in classes]), classes[0][1])
    return Figure(value) if interval is None else Figure(value, interval.low, interval.high)
