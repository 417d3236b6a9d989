"""How the settings of a study were chosen, as part of the study: `levelfield tune` writes it, reports print it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class TunedMethod(BaseModel):
    """The search for one method's settings. All figures are of validation classes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    trial: int | None = Field(None, ge=0)
    """The chosen trial; trial 0 has the study's own settings. None: nothing to search, or every trial failed."""
    chosen: dict[str, Any] = Field(default_factory=dict)
    values: tuple[float | None, ...] = ()
    """The figure of each trial in order; None if the trial failed."""
    pruned: tuple[int, ...] = ()
    """Trials that were stopped early: their figures are of a shorter training and choose nothing."""
    ranges: dict[str, list[Any]] = Field(default_factory=dict)
    settings: tuple[dict[str, Any], ...] = ()
    """What each trial tried."""
    seconds: float = Field(0.0, ge=0)
    images: int = Field(0, ge=0)

    @property
    def complete(self) -> list[float]:
        """The figures of the trials that trained to their end."""
        return [v for k, v in enumerate(self.values) if v is not None and k not in self.pruned]


class TuningRecord(BaseModel):
    """The same budget for every method: how large it was, and what it found."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    budget: str
    metric: str
    judged_by: str
    sampler: str
    seed: int = 0
    methods: dict[str, TunedMethod] = Field(default_factory=dict)
    common: TunedMethod | None = None
    """The search for conditions that all methods share, if there was one: the mean figure of all methods decided."""

    @property
    def trials(self) -> int:
        """The number of trials that every searched method had at least."""
        return min((len(m.values) for m in self.methods.values() if m.ranges), default=0)
