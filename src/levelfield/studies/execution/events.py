"""What becomes known of runs while they are done, wherever that is."""

from __future__ import annotations

from dataclasses import dataclass

from levelfield.progress import SELDOM, CallbackProgress, Progress


@dataclass(frozen=True)
class Event:
    """What the parent learns: `kind` is start, progress, done, failed or busy."""

    kind: str
    run: int
    text: str = ""
    done: int = 0
    total: int = 0


class RunsProgress(Progress):
    """Progress of many runs: each starts, has stages of its own, and ends. This one is silent; others override
    `on_event`, and `report` for what precedes the runs."""

    def on_event(self, event: Event) -> None:
        """Take in what happened to a run."""

    def of_run(self, number: int) -> Progress:
        """The progress of one run, whose stages become events, not more often than a person can see."""
        return CallbackProgress(lambda *stage: self.on_event(Event("progress", number, *stage)), pause=SELDOM)


SILENT_RUNS = RunsProgress()
