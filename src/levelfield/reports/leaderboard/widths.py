"""Tables that fit a width: columns that find no room beside the others come in a further table. No figure is cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def divided(widths: Mapping[str, int], room: int, *, first: int | None = None) -> Iterator[list[str]]:
    """Columns in parts that fit `room`, a space before each; the first part, which may be empty, fits `first`.

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
