"""Tables that fit a width: columns that do not fit move to another table. No number is truncated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def divided(widths: Mapping[str, int], room: int, *, first: int | None = None) -> Iterator[list[str]]:
    """Divide columns into parts that fit `room`, one space before each; the first part (maybe empty) fits `first`.

    >>> list(divided({"a": 5, "b": 5, "c": 8}, 12)), list(divided({"a": 5, "b": 5, "c": 8}, 12, first=3))
    ([['a', 'b'], ['c']], [[], ['a', 'b'], ['c']])
    """
    part: list[str] = []
    left, may_close = (room, False) if first is None else (first, True)
    for name, width in widths.items():
        if may_close and width + 1 > left:
            yield part
            part, left = [], room
        part.append(name)
        left -= width + 1
        may_close = True
    yield part
