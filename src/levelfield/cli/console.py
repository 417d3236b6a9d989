"""Consoles of the command line, and progress bars."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from levelfield.files.writing import finite
from levelfield.progress import CallbackProgress, LoggedProgress, Progress
from levelfield.studies.execution.events import Event, RunsProgress
from levelfield.wording import printable

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class SafeConsole(Console):
    """A console that prints control characters in texts, such as names of files, as escapes."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


class SafeFormatter(logging.Formatter):
    """The same for messages of the log."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


# no markup and no emoji: labels, paths and formulas may contain [brackets] and :words:
console = SafeConsole(markup=False, highlight=False, emoji=False)
error_console = SafeConsole(stderr=True, markup=False, highlight=False, emoji=False)

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


def note(text: str | Text) -> None:
    """Print a remark on stderr, unless the command is quiet."""
    if not is_quiet():
        error_console.print(text, soft_wrap=True)


class Results(Protocol):
    """What a command prints."""

    def as_data(self) -> Any: ...

    @property
    def show(self) -> Callable[..., None]: ...


def json_text(content: Any) -> str:
    return json.dumps(finite(content), indent=2, allow_nan=False)


def print_json(content: Any) -> None:
    print(json_text(content))


def print_results(results: Results, *, as_json: bool, **how: bool) -> None:
    """Print results. how: further arguments of their `show`."""
    if as_json:
        print_json(results.as_data())
    else:
        results.show(console, **how)


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
        task = drawn.add_task("", visible=False)

        def report(text: str, done: int, total: int) -> None:
            if done == 0:
                note(f"checking {total:,} images (first time only)")
            drawn.update(task, description=text, completed=done, total=total, visible=True)

        yield CallbackProgress(report)


class RunBars:
    """One bar for each active run. titles: by the number of the run."""

    def __init__(self, drawn: RichProgress, titles: Sequence[str] = ()) -> None:
        self._drawn = drawn
        self._tasks: dict[int, TaskID] = {}
        self.begin(titles)

    def begin(self, titles: Sequence[str]) -> None:
        """Show other runs from now on."""
        while self._tasks:
            self._drawn.remove_task(self._tasks.popitem()[1])
        self._titles, self._width = titles, max(map(len, titles), default=0)

    def on_event(self, event: Event) -> None:
        if event.kind == "progress":
            text = f"  {self._titles[event.run]:<{self._width}}  {event.text}"
            if event.run not in self._tasks:
                self._tasks[event.run] = self._drawn.add_task(text, total=event.total)
            self._drawn.update(self._tasks[event.run], description=text, completed=event.done, total=event.total)
        elif event.kind in ("done", "failed") and event.run in self._tasks:
            self._drawn.remove_task(self._tasks.pop(event.run))


class StudyBars(RunBars, RunsProgress):
    """One bar for the study with the time left, and one for each active run."""

    def __init__(self, drawn: RichProgress, titles: Sequence[str]) -> None:
        super().__init__(drawn, titles)
        self._shares = [0.0] * len(titles)
        self._name = f"all {len(titles)} runs"
        self._all = drawn.add_task(f"{self._name}: starting", total=len(titles))

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        if event.kind == "progress":
            share = _SHARES.get(event.text, 0.0) * event.done / max(1, event.total)
            self._shares[event.run] = max(self._shares[event.run], share)
        elif event.kind in ("done", "failed"):
            self._shares[event.run] = 1.0
        if event.kind == "failed":
            error_console.print(failure(f"{self._titles[event.run]}: {event.text}"), soft_wrap=True)
        elif event.kind in _NOTES:
            note(_NOTES[event.kind].format(label=self._titles[event.run], text=event.text))
        self._drawn.update(self._all, description=self._name, completed=sum(self._shares))


def failure(text: str) -> Text:
    return Text.assemble(("failed", "red"), f" {text}")
