"""The record of how a study's settings were chosen: `levelfield tune` writes it, reports print it."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class TunedMethod(BaseModel):
    """The search for one method's settings. All scores are on validation classes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    trial: int | None = Field(None, ge=0)
    """The chosen trial; trial 0 has the study's own settings. None: nothing to search, or every trial failed."""
    chosen: dict[str, Any] = Field(default_factory=dict)
    values: tuple[float | None, ...] = ()
    """The score of each trial in order; None if the trial failed."""
    pruned: tuple[int, ...] = ()
    """Trials that were stopped early: their scores come from shorter training and are not used for selection."""
    ranges: dict[str, list[Any]] = Field(default_factory=dict)
    settings: tuple[dict[str, Any], ...] = ()
    """The settings of each trial."""
    seconds: float = Field(0.0, ge=0)
    images: int = Field(0, ge=0)

    @property
    def complete(self) -> list[float]:
        """The scores of the trials that were not stopped early."""
        early = set(self.pruned)
        return [v for k, v in enumerate(self.values) if v is not None and k not in early]


class TuningRecord(BaseModel):
    """The budget, which is the same for every method, and the result of the search."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    budget: str
    metric: str
    judged_by: str
    sampler: str
    seed: int = 0
    methods: dict[str, TunedMethod] = Field(default_factory=dict)
    common: TunedMethod | None = None
    """The search for conditions that all methods share, if any: the mean score of all methods decided."""

    @property
    def trials(self) -> int:
        """The smallest number of trials of a searched method."""
        return min((len(m.values) for m in self.methods.values() if m.ranges), default=0)

    def of(self, labels: Set[str]) -> TuningRecord:
        """The record of these methods alone; the study may have been narrowed to a few of those that were tuned."""
        return self.model_copy(update={"methods": {k: tuned for k, tuned in self.methods.items() if k in labels}})
