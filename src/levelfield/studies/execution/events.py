"""Progress events of runs, from any process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from levelfield.progress import SELDOM, CallbackProgress, Progress


@dataclass(frozen=True)
class Event:
    """A message to the parent; `kind` is start, progress, done, failed, busy (another command does the run) or lost
    (its node or process is gone; it is started again)."""

    kind: str
    run: int
    text: str = ""
    done: int = 0
    total: int = 0


class RunsProgress(Progress):
    """Progress of many runs: each starts, has stages, and ends. Calls `send` with each event; silent by default.
    Subclasses override `on_event`, and `report` for work before the runs."""

    def __init__(self, send: Callable[[Event], None] = lambda event: None) -> None:
        self._send = send

    def on_event(self, event: Event) -> None:
        """Handle an event of a run."""
        self._send(event)

    def of_run(self, number: int) -> Progress:
        """The progress of one run; its stages become events, at a limited rate."""
        return CallbackProgress(lambda *stage: self.on_event(Event("progress", number, *stage)), pause=SELDOM)


SILENT_RUNS = RunsProgress()
