"""Progress of a search and of a recipe on the terminal: the time left, and the best so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.progress import Progress, TaskID

from levelfield.cli.console import RunBars, error_console, failure, note
from levelfield.studies.execution.events import Event
from levelfield.tuning import Trial, TuningProgress
from levelfield.tuning.recipe import RecipeProgress
from levelfield.wording import duration, plural


@dataclass
class _Tally:
    """The trials of a method so far, and its bar."""

    bar: TaskID
    spent: float = 0.0
    trials: int = 0
    failed: int = 0
    best: Trial | None = None

    def __str__(self) -> str:
        best = "none yet" if self.best is None else f"{self.best.value:.3f} (trial {self.best.number})"
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{plural(self.trials, 'trial', 'trials')}, best {best}{failed}"


class TuningBars(RunBars, TuningProgress):
    """A bar with the time left, one for each method with its best score so far, and one for each active run."""

    def __init__(self, drawn: Progress) -> None:
        super().__init__(drawn)
        self._all = drawn.add_task("checking the study", total=None)
        self._tallies: dict[str, _Tally] = {}

    def on_methods(self, labels: Sequence[str]) -> None:
        for tally in self._tallies.values():
            self._drawn.remove_task(tally.bar)
        self._tallies = {label: _Tally(self._drawn.add_task(label, total=1.0)) for label in labels}
        text = f"trials of {plural(len(labels), 'method', 'methods')}"
        self._drawn.update(self._all, description=text, total=len(labels), completed=0)

    def on_round(self, titles: Sequence[str]) -> None:
        self.begin(titles)

    def on_trial(self, trial: Trial, *, spent: float) -> None:
        tally = self._tallies[trial.method]
        tally.trials, tally.spent = tally.trials + 1, spent
        if trial.error:
            tally.failed += 1
            note(failure(f"{trial.method}, trial {trial.number}: {trial.error}"))
        elif trial.value is not None and (tally.best is None or (trial.value or 0.0) > (tally.best.value or 0.0)):
            tally.best = trial
        self._drawn.update(tally.bar, description=f"{trial.method}: {tally}", completed=spent)
        self._drawn.update(self._all, completed=sum(each.spent for each in self._tallies.values()))
        if not error_console.is_terminal and tally.trials % 4 == 0:
            note(f"{trial.method}: {tally}")


class RecipeBars(RunBars, RecipeProgress):
    """A bar with the stage of a recipe and the time left, and one for each active run; decisions become lines.

    limit: seconds of the recipe. elapsed: returns those that have passed.
    """

    def __init__(self, drawn: Progress, limit: float, elapsed: Callable[[], float]) -> None:
        super().__init__(drawn)
        self._limit, self._elapsed = limit, elapsed
        self._all = drawn.add_task("starting", total=limit)

    def on_stage(self, text: str, titles: Sequence[str]) -> None:
        self.begin(titles)
        left = duration(max(1.0, self._limit - self._elapsed()))
        self._drawn.update(self._all, description=f"{text}; {left} left", completed=self._elapsed())

    def on_decision(self, text: str) -> None:
        note(text)

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        self._drawn.update(self._all, completed=min(self._limit, self._elapsed()))
        if event.kind == "failed":
            note(failure(event.text))
