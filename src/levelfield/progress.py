"""Progress reporting: one protocol for all long-running work, independent of the display.

The work calls `stage = progress.stage("features", 100)` and then `stage.advance(n)`. Implementations: `Progress` itself
is silent, `LoggedProgress` writes to the log, `CallbackProgress` calls a function (which may send to another process),
and the command line draws bars.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)
SELDOM = 0.2  # seconds between updates that a person can follow


class Progress:
    """Silent progress. Implementations override `report`."""

    def stage(self, text: str, total: int) -> Stage:
        """Begin and report a stage of `total` steps."""
        return Stage(self, text, total)

    def report(self, text: str, done: int, total: int) -> None:
        """Report that `done` of the `total` steps of the stage `text` are done."""


class Stage:
    """A stage of the work and its number of finished steps.

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
        """Add `count` finished steps."""
        if count:
            self.reach(self.done + count)

    def reach(self, done: int) -> None:
        """Set the number of finished steps."""
        self.done = done
        self._progress.report(self.text, done, self.total)


class CallbackProgress(Progress):
    """Call `function(text, done, total)` at most once per `pause` seconds, and always when a stage is complete.

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
    """Write a log line when a stage begins and when it is complete."""

    def report(self, text: str, done: int, total: int) -> None:
        if done in (0, total):
            _log.info("%s: %s of %s", text, f"{done:,}", f"{total:,}")


SILENT = Progress()
SILENT_STAGE = SILENT.stage("", 0)  # for functions whose caller reports no progress
