"""How far a long piece of work is: one protocol for everything that takes long, whoever shows it.

The work says `stage = progress.stage("features", 100)` and then `stage.advance(n)`. What becomes of it is an
implementation: `Progress` itself is silent, `LoggedProgress` writes to the log, `CallbackProgress` calls a function
(which may send it to another process), the command line draws bars.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)
SELDOM = 0.2  # seconds: a person sees no more


class Progress:
    """Silence. An implementation overrides `report`."""

    def stage(self, text: str, total: int) -> Stage:
        """Begin a stage of the work that has `total` steps; that it has begun is reported."""
        return Stage(self, text, total)

    def report(self, text: str, done: int, total: int) -> None:
        """Take in that `done` of the `total` steps of the stage `text` are done."""


class Stage:
    """A stage of some work: how many of its steps are done.

    >>> stage = CallbackProgress(print).stage("features", 3)
    features 0 3
    >>> stage.advance(2)
    features 2 3
    >>> stage.reach(3)
    features 3 3
    """

    def __init__(self, progress: Progress, text: str, total: int) -> None:
        self.text, self.total, self.done = text, total, 0
        self._progress = progress
        progress.report(text, 0, total)

    def advance(self, count: int = 1) -> None:
        """`count` more steps are done."""
        if count:
            self.reach(self.done + count)

    def reach(self, done: int) -> None:
        """`done` steps are done in all."""
        self.done = done
        self._progress.report(self.text, done, self.total)


class CallbackProgress(Progress):
    """Calls `function(text, done, total)`, at most once in `pause` seconds, and always when a stage is complete.

    >>> heard = []
    >>> stage = CallbackProgress(lambda text, done, total: heard.append(done), pause=SELDOM).stage("training", 99)
    >>> for _ in range(99):
    ...     stage.advance()
    >>> heard[-1], len(heard) < 50
    (99, True)
    """

    def __init__(self, function: Callable[[str, int, int], object], *, pause: float = 0.0) -> None:
        self._function, self._pause, self._spoke = function, pause, float("-inf")

    def report(self, text: str, done: int, total: int) -> None:
        if done == total or time.monotonic() - self._spoke >= self._pause:
            self._spoke = time.monotonic()
            self._function(text, done, total)


class LoggedProgress(Progress):
    """A line in the log when a stage begins and when it is complete, for work that nobody watches."""

    def report(self, text: str, done: int, total: int) -> None:
        if done in (0, total):
            _log.info("%s: %s of %s", text, f"{done:,}", f"{total:,}")


SILENT = Progress()
SILENT_STAGE = SILENT.stage("", 0)  # for a function whose caller counts nothing
