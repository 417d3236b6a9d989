"""A refinement of embeddings at test time with its settings, as given by a study or the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from levelfield.errors import BadSpecification, unknown
from levelfield.evaluation.inputs import Array
from levelfield.files.plain_yaml import read_yaml
from levelfield.methods.refine.passing import check_refinement, refine, ways
from levelfield.objectives.message_passing import MessagePassing
from levelfield.progress import SILENT, Progress


@dataclass(frozen=True)
class Refinement:
    """Message passing among test embeddings (seidenschwarz2021 C): the way to form groups, with its settings.

    >>> Refinement("nearest", {"size": 5}).text
    'nearest size=5'
    """

    by: str = "reciprocal"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.by not in ways():
            raise unknown("refinement", str(self.by), ways())
        check_refinement(self.by, self.settings)

    @classmethod
    def of(cls, choice: Any) -> Refinement:
        """Create from the entry of a study: a name, or `by` with settings.

        >>> Refinement.of({"by": "kmeans", "clusters": 40}).text
        'kmeans clusters=40'
        """
        if isinstance(choice, str):
            return cls(choice)
        if not isinstance(choice, Mapping) or "by" not in choice:
            raise BadSpecification(
                f"'refine' is {choice!r}; use one of {', '.join(ways())}, or settings such as {{by: nearest, size: 5}}."
            )
        return cls(choice["by"], {key: value for key, value in choice.items() if key != "by"})

    @classmethod
    def parse(cls, text: str) -> Refinement:
        """Create from the text of the command line: the name, then its settings.

        >>> Refinement.parse("reciprocal:k=20:size=5")
        Refinement(by='reciprocal', settings={'k': 20, 'size': 5})
        """
        by, *rest = (part.strip() for part in text.split(":"))
        wrong = next((part for part in rest if "=" not in part), None)
        if wrong is not None:
            raise BadSpecification(f"'{wrong}' in '{text}' is not a setting: use the form reciprocal:k=20:size=5.")
        pairs = [part.split("=", 1) for part in rest]
        return cls(by, {name.strip(): read_yaml(value, origin=f"'{text}'") for name, value in pairs})

    @property
    def text(self) -> str:
        return " ".join([self.by, *(f"{name}={value}" for name, value in self.settings.items())])

    def check(self, objective: nn.Module | None) -> None:
        """Refuse an objective that cannot refine."""
        self.width(objective)

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

    def __call__(
        self,
        objective: nn.Module | None,
        rows: Array,
        gallery: Array | None = None,
        *,
        progress: Progress = SILENT,
    ) -> Array:
        """Refined unit rows, by the trained network of `objective`."""
        self.check(objective)
        return refine(objective, rows, gallery, by=self.by, progress=progress, **self.settings)
