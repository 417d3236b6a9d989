"""The record of how a study's settings were chosen: `levelfield tune` writes it, reports print it."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from levelfield.errors import LevelfieldError
from levelfield.ranges import Range


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

    @model_validator(mode="after")
    def _trials_agree(self) -> TunedMethod:
        """A record may come from a stranger or from an editor: what reports rely on is checked here."""
        count = len(self.values)
        if not all(value is None or math.isfinite(value) for value in self.values) or not math.isfinite(self.seconds):
            raise ValueError("a value is not a finite number")
        if self.ranges and len(self.settings) != count:
            raise ValueError(f"{len(self.settings)} settings for {count} values")
        if not all(0 <= number < count for number in (*self.pruned, *(() if self.trial is None else (self.trial,)))):
            raise ValueError(f"a trial number is not below {count}, the number of trials")
        self._check_settings()
        return self

    def _check_settings(self) -> None:
        for key, written in self.ranges.items():
            try:
                span = Range.parse(key, written)
            except LevelfieldError as error:
                raise ValueError(str(error).rstrip(".")) from error
            for number, settings in enumerate(self.settings):
                if key in settings and settings[key] not in span:
                    raise ValueError(f"'{key}' of trial {number} is {settings[key]!r}, outside {span.text}")


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
        return self.model_copy(update={"methods": {k: one for k, one in self.methods.items() if k in labels}})
