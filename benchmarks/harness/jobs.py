"""A study of equal runs with one process and with two."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from levelfield import compare
from levelfield.studies import Study
from levelfield.studies.execution.events import Event, RunsProgress


@dataclass
class Watch(RunsProgress):
    """Start times of each run and of its training."""

    began: float = field(default_factory=time.perf_counter)
    taken: dict[int, float] = field(default_factory=dict)
    training: dict[int, float] = field(default_factory=dict)
    done: dict[int, float] = field(default_factory=dict)

    def on_event(self, event: Event) -> None:
        now = time.perf_counter() - self.began
        if event.kind == "start":
            self.taken[event.run] = now
        elif event.kind == "progress" and event.text == "training":
            self.training.setdefault(event.run, now)
        elif event.kind == "done":
            self.done[event.run] = now

    @property
    def start_up(self) -> float:
        """Seconds of start-up before the first training, which later runs of the process do not need."""
        first, *later = sorted(self.training)
        again = median(self.training[run] - self.taken[run] for run in later) if later else 0.0
        return self.training[first] - again

    @property
    def run_seconds(self) -> float:
        """Median seconds of a run that is not the first of its process."""
        last = sorted(self.done)[-max(1, len(self.done) // 2) :]
        return median(self.done[run] - self.taken[run] for run in last)


def timed(study: Study, jobs: int) -> tuple[float, Watch]:
    """Seconds of the whole study in a new folder, from prepared features to the leaderboard."""
    with tempfile.TemporaryDirectory() as folder:
        watch = Watch()
        compare(study, out=Path(folder), jobs=jobs, progress=watch)
        return time.perf_counter() - watch.began, watch


def load() -> float:
    """Load average of the last minute."""
    return os.getloadavg()[0]
