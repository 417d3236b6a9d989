"""Format numbers, lists and objects as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

MAX_LISTED = 5
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tabs and line breaks


def printable(text: str) -> str:
    r"""Text whose control characters are written as escapes: in a file name, they could command a terminal.

    >>> print(printable("\x1b[31mred.png"))
    \x1b[31mred.png
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def plural(number: int, singular: str, many: str) -> str:
    """Format a number with the matching form of a noun (and verb).

    >>> plural(1, "class has", "classes have"), plural(1200, "image", "images")
    ('1 class has', '1,200 images')
    """
    return f"{number:,} {singular if number == 1 else many}"


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(45), duration(600), duration(9000)
    ('45 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def first_few(names: Sequence[str], between: str = ", ", most: int = MAX_LISTED) -> str:
    """Format the first names and the number of remaining ones.

    >>> first_few(["a", "b"]), first_few(list("abcdefg"))
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    return between.join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def natural(name: str) -> tuple[list[str | int], str]:
    """Sort key: runs of digits count as numbers, case is ignored; the plain text breaks ties.

    >>> sorted(["10", "2", "b1", "B10", "b2"], key=natural)
    ['2', '10', 'b1', 'b2', 'B10']
    """
    # re.split with a group alternates text, number, text ..., so that types match at every position.
    pieces = re.split(r"([0-9]+)", name.casefold())
    return [int(piece) if i % 2 else piece for i, piece in enumerate(pieces)], name


class Shown:
    """One line and a small table for notebooks, from `facts` of an object with `about`.

    >>> model = Shown()
    >>> model.about = {"method": "margin", "data": "cub", "seed": 0}
    >>> model
    Shown(method='margin', data='cub')
    """

    about: Mapping[str, Any]

    def facts(self) -> dict[str, Any]:
        """What identifies the object, in short."""
        return {key: self.about[key] for key in ("method", "data") if key in self.about}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.facts().items())})"

    def _repr_html_(self) -> str:
        from levelfield.table import Table

        parts = enumerate(getattr(self, "members", ()))
        return Table([], [*self.facts().items(), *parts], type(self).__name__).html()
