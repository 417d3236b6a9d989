"""Consoles of the command line, and progress bars."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from levelfield.progress import CallbackProgress, LoggedProgress, Progress
from levelfield.studies.execution.events import Event, RunsProgress

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

# no markup and no emoji: labels, paths and formulas may contain [brackets] and :words:
console = Console(markup=False, highlight=False, emoji=False)
error_console = Console(stderr=True, markup=False, highlight=False, emoji=False)

_SHARES = {"features": 0.5, "training": 0.95}  # share of a run that is done after each stage; the rest is short

_NOTES = {
    "busy": "{label} is being run by another process; will check again at the end",
    "lost": "{label}: {text}; it starts again from its last checkpoint",
}


def is_quiet() -> bool:
    return logging.getLogger("levelfield").level >= logging.ERROR


def say(text: str) -> None:
    """Print a line of the result; the terminal wraps it."""
    console.print(text, soft_wrap=True)


def note(text: str) -> None:
    """Print a remark on stderr, unless the command is quiet."""
    if not is_quiet():
        error_console.print(text, soft_wrap=True)


def bars(*, transient: bool = False) -> RichProgress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=error_console,
        disable=is_quiet() or (transient and not error_console.is_terminal),
        transient=transient,
    )


@contextmanager
def bar(text: str, *, transient: bool = True) -> Iterator[Progress]:
    """A progress bar with the time left. A transient one is drawn only on a terminal, and removed at the end;
    elsewhere progress goes to the log (-v)."""
    if transient and not error_console.is_terminal:
        yield LoggedProgress()
        return
    with bars(transient=transient) as drawn:
        task = drawn.add_task(text, total=None)
        yield CallbackProgress(lambda _, done, total: drawn.update(task, completed=done, total=total))


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print each warning raised inside once, as one sentence on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        error_console.print(f"Warning: {text}", soft_wrap=True)


@contextmanager
def checking_images() -> Iterator[Progress]:
    """A line and a bar while images are checked for the first time; nothing if all have been checked."""
    with bars(transient=True) as drawn:
        tasks: list[TaskID] = []

        def report(text: str, done: int, total: int) -> None:
            if done == 0:
                if not is_quiet():
                    drawn.console.print(f"checking {total:,} images (first time only)")
                tasks.append(drawn.add_task(text, total=total))
            drawn.update(tasks[-1], completed=done)

        yield CallbackProgress(report)


class StudyBars(RunsProgress):
    """One bar for the study with the time left, and one for each active run."""

    def __init__(self, labels: list[str]) -> None:
        self._labels = labels
        self._progress = bars()
        self._shares = [0.0] * len(labels)
        self._bars: dict[int, TaskID] = {}
        self._name = f"all {len(labels)} runs"
        self._all = self._progress.add_task(f"{self._name}: starting", total=len(labels))
        self._width = max(map(len, labels), default=0)

    def __enter__(self) -> StudyBars:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def on_event(self, event: Event) -> None:
        if event.kind == "progress":
            self._move(event)
        elif event.kind in ("done", "failed"):
            self._shares[event.run] = 1.0
            if event.run in self._bars:
                self._progress.remove_task(self._bars.pop(event.run))
            if event.kind == "failed":
                message = Text.assemble(("failed", "red"), f" {self._labels[event.run]}: {event.text}")
                self._progress.console.print(message, soft_wrap=True)
        elif event.kind in _NOTES and not is_quiet():
            message = Text(_NOTES[event.kind].format(label=self._labels[event.run], text=event.text))
            self._progress.console.print(message, soft_wrap=True)
        self._progress.update(self._all, description=self._name, completed=sum(self._shares))

    def _move(self, event: Event) -> None:
        text = f"  {self._labels[event.run]:<{self._width}}  {event.text}"
        if event.run not in self._bars:
            self._bars[event.run] = self._progress.add_task(text, total=event.total)
        self._progress.update(self._bars[event.run], description=text, completed=event.done, total=event.total)
        share = _SHARES.get(event.text, 0.0) * event.done / max(1, event.total)
        self._shares[event.run] = max(self._shares[event.run], share)
