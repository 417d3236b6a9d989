"""Message passing at test time (seidenschwarz2021 C.1-C.3): the refinement of stored rows in groups.

No image is embedded again. Groups are pure functions of the rows (and of a seed, if random).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from levelfield.errors import BadSpecification, unknown
from levelfield.evaluation.inputs import Array, finite_rows
from levelfield.evaluation.search.distances import unit_rows
from levelfield.files.plain_yaml import read_yaml
from levelfield.methods.refine import groups as grouping
from levelfield.methods.refine.groups import Groups
from levelfield.objectives.message_passing import MessagePassing
from levelfield.progress import SILENT, Progress
from levelfield.settings import accepted, check_settings, check_values

WAYS: dict[str, tuple[Callable[..., Any], ...]] = {
    "reciprocal": (grouping.reciprocal_groups,),
    "nearest": (grouping.nearest_groups,),
    "kmeans": (grouping.kmeans, grouping.cluster_groups),
    "ward": (grouping.ward, grouping.cluster_groups),
    "spectral": (grouping.spectral, grouping.cluster_groups),
    "birch": (grouping.birch, grouping.cluster_groups),
    "dbscan": (grouping.dbscan, grouping.cluster_groups),
    "optics": (grouping.optics, grouping.cluster_groups),
}
"""The functions that form the groups of each way, one after the other."""
_ENTRIES = 2**21  # values of the widest layer computed at a time


def settings_of(by: str) -> dict[str, Any]:
    """The settings of a way with their defaults."""
    arguments = [argument for function in WAYS[by] for argument in (accepted(function) or {}).items()]
    return {name: default for name, default in arguments if name not in ("rows", "gallery", "labels")}


@dataclass(frozen=True)
class Refinement:
    """Message passing among test embeddings (seidenschwarz2021 C): the way to form groups, with its settings.

    >>> Refinement("nearest", {"size": 5}).text
    'nearest size=5'
    >>> Refinement("nearest", {"sise": 5})
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: The refinement 'nearest' has no setting 'sise'. Did you mean 'size'?
    """

    by: str = "reciprocal"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.by not in WAYS:
            raise unknown("refinement", str(self.by), WAYS)
        check_settings(f"refinement '{self.by}'", self.settings, lambda: None, also=settings_of(self.by))
        for function in WAYS[self.by]:
            check_values(self.settings, function)

    @classmethod
    def of(cls, choice: Any) -> Refinement:
        """Create from the entry of a study: a name, or `by` with settings."""
        if isinstance(choice, str):
            return cls(choice)
        if not isinstance(choice, Mapping) or "by" not in choice:
            raise BadSpecification(
                f"'refine' is {choice!r}; use one of {', '.join(WAYS)}, or settings such as {{by: nearest, size: 5}}."
            )
        return cls(choice["by"], {key: value for key, value in choice.items() if key != "by"})

    @classmethod
    def parse(cls, text: str) -> Refinement:
        """Create from the text of the command line: the name, then its settings.

        >>> Refinement.parse("reciprocal:k=20:size=5")
        Refinement(by='reciprocal', settings={'k': 20, 'size': 5})
        """
        by, *pairs = (part.strip() for part in text.split(":"))
        wrong = next((pair for pair in pairs if "=" not in pair), None)
        if wrong is not None:
            raise BadSpecification(f"'{wrong}' in '{text}' is not a setting: use the form reciprocal:k=20:size=5.")
        settings = dict(pair.split("=", 1) for pair in pairs)
        return cls(by, {name.strip(): read_yaml(value, origin=f"'{text}'") for name, value in settings.items()})

    @property
    def text(self) -> str:
        return " ".join([self.by, *(f"{name}={value}" for name, value in self.settings.items())])

    def width(self, objective: nn.Module | None) -> int:
        """Size of a refined row; refuses an objective that cannot refine."""
        if not isinstance(objective, MessagePassing):
            raise BadSpecification(
                "'refine' needs the objective 'message_passing', whose network passes messages between test images."
            )
        if objective.head_scale is None:
            raise BadSpecification(
                "'refine' needs a 'message_weight' above 0: with 0 the message-passing network is not trained."
            )
        return objective.head_scale.numel()

    def groups(self, rows: Array) -> Groups:
        """The groups of unit rows."""
        result: Any = rows
        for function in WAYS[self.by]:
            names = accepted(function) or {}
            result = function(result, **{name: value for name, value in self.settings.items() if name in names})
        groups: Groups = result
        return groups

    def __call__(
        self, objective: nn.Module | None, rows: Array, gallery: Array | None = None, *, progress: Progress = SILENT
    ) -> Array:
        """Refined unit rows, see `refine`."""
        self.width(objective)
        trained: Any = objective
        rows = finite_rows(rows, "embeddings", None)
        if gallery is None:
            return refined_rows(trained, rows, None, self.groups(unit_rows(rows)), progress=progress)
        if self.by != "reciprocal":
            raise BadSpecification(f"Refinement '{self.by}' does not support queries with a gallery; use 'reciprocal'.")
        if trained.concat_steps:
            raise BadSpecification(
                "Refinement with 'concat_steps' does not support a gallery: refined queries are wider than gallery "
                "rows."
            )
        gallery = finite_rows(gallery, "gallery", None)
        groups = grouping.reciprocal_groups(unit_rows(rows), unit_rows(gallery), **self.settings)
        return refined_rows(trained, rows, gallery, groups, progress=progress)


def refine(
    objective: nn.Module,
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
    return Refinement(by, settings)(objective, embeddings, gallery, progress=progress)


def refined_rows(
    objective: MessagePassing, rows: Array, gallery: Array | None, groups: Groups, *, progress: Progress = SILENT
) -> Array:
    """Refined rows of the kept columns of all groups; if a row is kept more than once, the first result.

    Memory: the result and a few groups at a time.
    """
    device = next(objective.parameters()).device
    kept_rows = groups.members[:, groups.kept]
    _, first = np.unique(kept_rows, return_index=True)
    wanted = np.isin(np.arange(kept_rows.size), first).reshape(kept_rows.shape)
    result: Array | None = None
    stage = progress.stage("refining", len(kept_rows))
    blocks = max(1, groups.members.size * 4 * rows.shape[1] // _ENTRIES)
    for block in np.array_split(np.arange(len(kept_rows)), blocks):
        members = groups.members[block]
        if gallery is None:
            inputs = rows[members]
        else:  # the first member is a query, the others are gallery rows
            inputs = np.concatenate((rows[members[:, :1]], gallery[members[:, 1:]]), axis=1)
        refined = objective.refine(torch.from_numpy(inputs).to(device), groups.kept).cpu().numpy()
        if result is None:
            result = np.empty((len(rows), refined.shape[2]), refined.dtype)
        result[kept_rows[block][wanted[block]]] = refined[wanted[block]]
        stage.advance(len(block))
    assert result is not None
    return result
