"""Message passing at test time (seidenschwarz2021 C.1-C.3): groups of stored rows and their refinement.

No image is embedded again. Groups are pure functions of the rows (and of a seed, if random).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from levelfield.errors import BadInput, BadSpecification, unknown
from levelfield.evaluation.inputs import Array, finite_rows
from levelfield.evaluation.search.distances import unit_rows
from levelfield.methods.refine.clusters import CLUSTERINGS
from levelfield.methods.refine.groups import Groups, chunks_of, dealt, nearest_lists, reciprocal_groups
from levelfield.objectives.message_passing import MessagePassing
from levelfield.progress import SILENT, Progress
from levelfield.settings import Count, accepted, check_settings, check_values, checked

__all__ = [
    "Groups",
    "check_refinement",
    "cluster_groups",
    "groups_of",
    "nearest_groups",
    "reciprocal_groups",
    "refine",
    "refined_rows",
    "settings_of",
    "ways",
]

_ENTRIES = 2**21  # values of the widest layer computed at a time


def ways() -> list[str]:
    """Names of the ways to form groups.

    >>> ways()[:3]
    ['reciprocal', 'nearest', 'kmeans']
    """
    return ["reciprocal", "nearest", *CLUSTERINGS]


def settings_of(by: str) -> dict[str, Any]:
    """The settings of a way with their defaults.

    >>> settings_of("nearest")
    {'chunks': 6, 'size': 9, 'seed': 0}
    """
    takes = [accepted(function) or {} for function in _functions(by)]
    rows = ("rows", "gallery", "labels")
    return {name: usual for each in takes for name, usual in each.items() if name not in rows}


def _functions(by: str) -> list[Callable[..., Any]]:
    """The functions that form the groups of a way, one after the other."""
    alone: dict[str, Callable[..., Any]] = {"reciprocal": reciprocal_groups, "nearest": nearest_groups}
    return [alone[by]] if by in alone else [CLUSTERINGS[by], cluster_groups]


def check_refinement(by: str, settings: Mapping[str, Any]) -> None:
    """Refuse unknown settings and values out of range.

    >>> check_refinement("nearest", {"sise": 5})
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: The refinement 'nearest' has no setting 'sise'. Did you mean 'size'? ...
    """
    check_settings(f"refinement '{by}'", settings, lambda: None, also=settings_of(by))
    for function in _functions(by):
        check_values(settings, function)


def refine(
    objective: Any,
    embeddings: Array,
    gallery: Array | None = None,
    *,
    by: str = "reciprocal",
    progress: Progress = SILENT,
    **settings: Any,
) -> Array:
    """Refined unit rows of `embeddings`, by the trained network of a `message_passing` objective.

    With a gallery (only `by="reciprocal"`) the embeddings are queries, the other members of a group come from the
    gallery, and the gallery rows are unchanged. `settings` are those of the groups, such as `k` or `clusters`.

    >>> objective = MessagePassing(num_classes=2, dim=4)
    >>> refine(objective, np.eye(4), k=2, size=3).shape
    (4, 4)
    """
    if not isinstance(objective, MessagePassing) or objective.network is None:
        raise BadSpecification("Refinement needs the objective 'message_passing' with a 'message_weight' above 0.")
    rows = finite_rows(embeddings, "embeddings", None)
    if gallery is None:
        return refined_rows(objective, rows, None, groups_of(unit_rows(rows), by, **settings), progress=progress)
    if by != "reciprocal":
        raise BadSpecification(f"Refinement '{by}' does not support queries with a gallery; use 'reciprocal'.")
    if objective.concat_steps:
        raise BadSpecification(
            "Refinement with 'concat_steps' does not support a gallery: refined queries are wider than gallery rows."
        )
    others = finite_rows(gallery, "gallery", None)
    check_refinement(by, settings)
    reciprocal = reciprocal_groups(unit_rows(rows), unit_rows(others), **settings)
    return refined_rows(objective, rows, others, reciprocal.groups, progress=progress)


def groups_of(rows: Array, by: str, **settings: Any) -> Groups:
    """Groups of `rows` by the named way.

    >>> groups_of(np.array([[0.0], [1.0], [2.0]]), "nearest", chunks=1, size=2).members.shape
    (3, 2)
    """
    if by not in ways():
        raise unknown("refinement", by, ways())
    check_refinement(by, settings)
    if by == "reciprocal":
        return reciprocal_groups(rows, **settings).groups
    if by == "nearest":
        return nearest_groups(rows, **settings)
    clustering = CLUSTERINGS[by]
    of_groups, of_clusters = accepted(cluster_groups) or {}, accepted(clustering) or {}
    labels = clustering(rows, **{key: value for key, value in settings.items() if key in of_clusters})
    return cluster_groups(labels, **{key: value for key, value in settings.items() if key in of_groups})


def refined_rows(
    objective: MessagePassing,
    rows: Array,
    gallery: Array | None,
    groups: Groups,
    *,
    progress: Progress = SILENT,
) -> Array:
    """Refined rows of the kept columns of all groups; if a row is kept more than once, the first result.

    Memory: the result and a few groups at a time.
    """
    device = next(objective.parameters()).device
    kept_rows = groups.members[:, groups.kept]
    _, first = np.unique(kept_rows, return_index=True)
    if len(first) != len(rows):
        raise BadInput(f"The groups contain {len(first)} of {len(rows)} rows; each row must be in at least one group.")
    wanted = np.isin(np.arange(kept_rows.size), first).reshape(kept_rows.shape)
    result: Array | None = None
    stage = progress.stage("refining", len(kept_rows))
    for some in np.array_split(np.arange(len(kept_rows)), max(1, groups.members.size * 4 * rows.shape[1] // _ENTRIES)):
        members = groups.members[some]
        if gallery is None:
            inputs = rows[members]
        else:  # the first member is a query, the others are gallery rows
            inputs = np.concatenate((rows[members[:, :1]], gallery[members[:, 1:]]), axis=1)
        refined = objective.refine(torch.from_numpy(inputs).to(device), groups.kept).cpu().numpy()
        if result is None:
            result = np.empty((len(rows), refined.shape[2]), refined.dtype)
        result[kept_rows[some][wanted[some]]] = refined[wanted[some]]
        stage.advance(len(some))
    assert result is not None
    return result


@checked
def nearest_groups(rows: Array, *, chunks: Count = 6, size: Count = 9, seed: int = 0) -> Groups:
    """C.2: a chunk is a row with its `size` - 1 nearest rows; `chunks` random chunks form a group, and the first row of
    each chunk is kept. The paper gives no numbers; the defaults are those of training on CUB.

    >>> nearest_groups(np.array([[0.0], [1.0], [5.0], [7.0]]), chunks=2, size=2).members.shape
    (2, 4)
    """
    if size > len(rows):
        raise BadInput(f"The chunk size is {size}, but there are {len(rows)} rows.")
    chosen = np.concatenate((np.arange(len(rows))[:, None], nearest_lists(rows, size - 1)), axis=1)
    return Groups(dealt(chosen, chunks, seed=seed), tuple(range(0, chunks * size, size)))


@checked
def cluster_groups(labels: Array, *, chunks: Count = 6, size: Count = 9, seed: int = 0) -> Groups:
    """C.1: clusters replace classes, and groups are formed like training batches, from `chunks` of `size` rows of one
    cluster each. All rows are kept at their first occurrence.

    >>> cluster_groups(np.array([0, 0, 1, 1]), chunks=2, size=2).members.shape
    (1, 4)
    """
    return Groups(dealt(chunks_of(labels, size, seed=seed), chunks, seed=seed), tuple(range(chunks * size)))
