"""Progress of `levelfield tune` on the terminal: the time left, and the best trial of each method so far."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from levelfield.cli.console import bars, error_console, is_quiet
from levelfield.studies.execution.events import Event
from levelfield.tuning import Trial, TuningProgress


class TuningBars(TuningProgress):
    """A bar with the time left, the active runs, and the best score of each method so far."""

    def __init__(self) -> None:
        self._progress = bars()
        self._labels: list[str] = []
        self._spent: dict[str, float] = {}
        self._best: dict[str, Trial] = {}
        self._counts: dict[str, int] = {}
        self._failed: dict[str, int] = {}
        self._titles: Sequence[str] = ()
        self._running: dict[int, Any] = {}
        self._all = self._progress.add_task("checking the study", total=None)
        live = error_console.is_terminal and not is_quiet()
        self._live = Live(console=error_console, refresh_per_second=4, transient=True) if live else None

    def __enter__(self) -> TuningBars:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def on_methods(self, labels: Sequence[str]) -> None:
        self._labels = list(labels)
        self._spent = dict.fromkeys(labels, 0.0)
        self._progress.update(self._all, description=f"trials of {len(labels)} methods", total=len(labels), completed=0)
        self._draw()

    def on_round(self, titles: Sequence[str]) -> None:
        for task in self._running.values():
            self._progress.remove_task(task)
        self._titles, self._running = titles, {}

    def on_event(self, event: Event) -> None:
        if event.kind == "progress":
            text = f"  {self._titles[event.run]}  {event.text}"
            if event.run not in self._running:
                self._running[event.run] = self._progress.add_task(text, total=event.total)
            self._progress.update(self._running[event.run], description=text, completed=event.done, total=event.total)
        elif event.kind in ("done", "failed") and event.run in self._running:
            self._progress.remove_task(self._running.pop(event.run))
        self._draw()

    def on_trial(self, trial: Trial, *, spent: float) -> None:
        self._spent[trial.method] = spent
        self._counts[trial.method] = self._counts.get(trial.method, 0) + 1
        best = self._best.get(trial.method)
        if trial.error:
            self._failed[trial.method] = self._failed.get(trial.method, 0) + 1
            if not is_quiet():
                message = Text.assemble(("failed", "red"), f" {trial.method}, trial {trial.number}: {trial.error}")
                error_console.print(message, soft_wrap=True)
        elif trial.counts and (best is None or (trial.value or 0.0) > (best.value or 0.0)):
            self._best[trial.method] = trial
        self._progress.update(self._all, completed=sum(self._spent.values()))
        if self._live is None and not is_quiet() and self._counts[trial.method] % 4 == 0:
            best = self._best.get(trial.method)
            value = "none yet" if best is None else f"{best.value:.3f} (trial {best.number})"
            error_console.print(f"{trial.method}: {self._counts[trial.method]} trials, best {value}")
        self._draw()

    def _draw(self) -> None:
        if self._live is None:
            return
        table = Table(box=None, pad_edge=False)
        for head in ("method", "trials", "best", "trial", "failed"):
            table.add_column(head, justify="left" if head == "method" else "right")
        for label in self._labels:
            best = self._best.get(label)
            cells = ("-", "-") if best is None else (f"{best.value:.3f}", str(best.number))
            table.add_row(label, str(self._counts.get(label, 0)), *cells, str(self._failed.get(label, "")))
        self._live.update(Group(self._progress.get_renderable(), table))
