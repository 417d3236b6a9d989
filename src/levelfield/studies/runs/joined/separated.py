"""Scores of an ensemble: of each member, their mean (separated), and of the joined embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from levelfield.evaluation import evaluate
from levelfield.evaluation.statistics import class_interval
from levelfield.progress import Progress
from levelfield.studies.runs.folder.items import Items
from levelfield.studies.runs.folder.store import Result
from levelfield.studies.runs.joined.members import Member


@dataclass(frozen=True)
class Figure:
    """A score with its interval over test classes; None if the metric has no value per query."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class _Score:
    """A metric of one embedding, and its class means, if any."""

    value: float
    class_means: np.ndarray | None
    weights: np.ndarray


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
        alone.append(_of_member(member, together, metrics))
        stage.advance()
    all_of_it = {name: _stored(together, name) for name in metrics}
    return Separated(
        [{name: _figure([scores[name]]) for name in metrics} for scores in alone],
        {name: _figure([scores[name] for scores in alone]) for name in metrics},
        {name: _figure([all_of_it[name]]) for name in metrics},
    )


def _of_member(member: Member, together: Result, metrics: Sequence[str]) -> dict[str, _Score]:
    own = member.result
    known = [
        name
        for name in metrics
        if name in own.values and own.signatures[name]["definition"] == together.signatures[name]["definition"]
    ]
    missing = [name for name in metrics if name not in known]
    scores = {name: _stored(own, name) for name in known}
    if missing:
        asked = Items.read(member.folder).arrays(member.rows, member.labels)  # with the gallery, if there is one
        result, labels = evaluate(**asked, metrics=missing), asked["labels"]
        kept = result.counted
        for name in missing:
            queries = result.per_query.get(name)
            scores[name] = _score(result[name], None if queries is None else queries[kept], labels[kept])
    return scores


def _stored(result: Result, metric: str) -> _Score:
    if not result.has_queries(metric):
        return _score(result.values[metric], None, np.zeros(0))
    return _score(result.values[metric], *result.per_query(metric))


def _score(value: float, queries: np.ndarray | None, labels: np.ndarray) -> _Score:
    if queries is None:
        return _Score(value, None, np.zeros(0))
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return _Score(value, np.bincount(codes, weights=queries) / counts, counts.astype(np.float64))


def _figure(scores: Sequence[_Score]) -> Figure:
    value = float(np.mean([each.value for each in scores]))
    means = [each.class_means for each in scores if each.class_means is not None]
    if len(means) < len(scores) or len(means[0]) == 0:
        return Figure(value)
    interval = class_interval(np.stack(means), scores[0].weights)
    return Figure(value) if interval is None else Figure(value, interval.low, interval.high)
