"""Natural order of names: 2 before 10."""

from __future__ import annotations

import re


def natural(name: str) -> tuple[list[str | int], str]:
    """Sort key: runs of digits count as numbers, case is ignored; the plain text breaks ties.

    >>> sorted(["10", "2", "b1", "B10", "b2"], key=natural)
    ['2', '10', 'b1', 'b2', 'B10']
    """
    # re.split with a group alternates text, number, text ..., so that types match at every position.
    pieces = re.split(r"([0-9]+)", name.casefold())
    return [int(piece) if i % 2 else piece for i, piece in enumerate(pieces)], name
