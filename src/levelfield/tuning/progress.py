"""What a search tells while it works."""

from __future__ import annotations

from collections.abc import Sequence

from levelfield.studies.execution.events import RunsProgress
from levelfield.tuning.trials import Trial


class TuningProgress(RunsProgress):
    """Progress of a search. This one is silent; the command line draws bars and the best so far."""

    def on_methods(self, labels: Sequence[str]) -> None:
        """The methods that are searched, before the first trial."""

    def on_round(self, titles: Sequence[str]) -> None:
        """A round begins: the events that follow count these runs."""

    def on_trial(self, trial: Trial, *, spent: float) -> None:
        """A trial is over. spent: the share of its method's budget, from 0 to 1."""


SILENT_TUNING = TuningProgress()
