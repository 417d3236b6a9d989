"""Scores of compact embeddings: each form evaluated, and its difference from float32."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from levelfield.evaluation.class_intervals import paired_differences
from levelfield.evaluation.compacting import Compacted, compact, form_names
from levelfield.evaluation.engine import evaluate
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.result import Evaluation
from levelfield.evaluation.search.distances import Distance
from levelfield.evaluation.statistics import Interval
from levelfield.progress import SILENT, Progress


@dataclass(frozen=True)
class CompactScore:
    """A compact form, its evaluation, and its paired differences from float32 (none for float32 itself)."""

    form: Compacted
    result: Evaluation
    differences: dict[str, Interval]


def compact_scores(
    train: Array | None,
    arrays: Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    dims: Sequence[int] | None = None,
    distance: Distance = "cosine",
    progress: Progress = SILENT,
) -> Iterator[CompactScore]:
    """Evaluate every compact form, float32 first. Only one form's rows are in memory at a time.

    Args:
        train: (m, dim) embeddings of training classes; None: only forms that need none.
        arrays: the arrays to evaluate, as arguments of `evaluate`.
        settings: other arguments of `evaluate`; its metrics must be retrieval metrics.
        dims: each k of `first k` and `whitened k`, as in `compact`.
        distance: compares rows, except bits.
        progress: gets a stage for each form.
    """
    gallery, whole = arrays.get("gallery"), None
    for form in compact(train, arrays["embeddings"], dims=dims, distance=distance).values():
        given = {**arrays, "embeddings": form.rows}
        if gallery is not None:
            given["gallery"] = form.of(gallery)
        result = evaluate(**{**given, **settings}, distance=form.distance, progress=progress)
        result = replace(result, search=None)  # which would keep the rows of every form
        level = settings.get("ci") or 0.95
        yield CompactScore(form, result, {} if whole is None else paired_differences(result, whole, level=level))
        whole = whole or result


def undetermined(made: Collection[str], dim: int, dims: Sequence[int] | None = None) -> str:
    """A sentence on whitened forms that are not among the `made` ones; empty if there are none.

    >>> undetermined(["float32", "whitened 16"], 32)
    'whitened 32: the training embeddings vary in fewer dimensions.'
    """
    lacking = [name for name in form_names(dim, dims) if name.startswith("whitened ") and name not in made]
    return f"{', '.join(lacking)}: the training embeddings vary in fewer dimensions." if lacking else ""
