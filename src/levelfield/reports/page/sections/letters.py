"""Compact letter display: rows that share a letter cannot be told apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from levelfield.reports.leaderboard.cells import letters

_MOST = 200  # sets of rows; beyond that the letters would explain nothing


def letter_groups(rows: Sequence[str], better: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The letters of each row. better: pairs of rows that differ significantly, in any order.

    Sets of rows are split at every such pair, and sets within others are dropped (Piepho 2004). Empty letters: there
    would be more than 200 sets.

    >>> letter_groups(["a", "b", "c"], [("a", "c")])
    {'a': 'a', 'b': 'ab', 'c': 'b'}
    >>> letter_groups(["a", "b"], [])
    {'a': 'a', 'b': 'a'}
    """
    sets = [frozenset(rows)] if rows else []
    for first, second in better:
        split = [one for one in sets if first in one and second in one]
        if not split:
            continue
        halves = {one - {name} for one in split for name in (first, second)}
        kept = [one for one in sets if one not in split]
        sets = kept + [half for half in halves if half and not any(half <= one for one in kept)]
        sets = [one for one in sets if not any(one < other for other in sets)]
        if len(sets) > _MOST:
            return dict.fromkeys(rows, "")
    place = {row: number for number, row in enumerate(rows)}
    sets.sort(key=lambda one: sorted(place[row] for row in one))
    signs = list(letters(map(str, range(len(sets)))).values())
    return {row: "".join(sign for sign, one in zip(signs, sets, strict=True) if row in one) for row in rows}
