"""Progress for whoever listens, not more often than a person can see."""

from __future__ import annotations

import time

from levelfield.studies.runs.inputs import Tell

SELDOM = 0.2  # seconds


def seldom(tell: Tell) -> Tell:
    """`tell`, called now and then, and always when something is complete.

    >>> heard = []
    >>> often = seldom(lambda text, done, total: heard.append(done))
    >>> for step in range(100):
    ...     often("training", step, 99)
    >>> heard[-1], len(heard) < 50
    (99, True)
    """
    spoke = float("-inf")

    def told(text: str, done: int, total: int) -> None:
        nonlocal spoke
        if done == total or time.monotonic() - spoke > SELDOM:
            spoke = time.monotonic()
            tell(text, done, total)

    return told
