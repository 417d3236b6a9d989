"""Former names of the papers, so that errors about old studies, presets and commands can name the new ones."""

from __future__ import annotations

NUMBERS = {
    "000": "zheng2021",
    "001": "fehervari2019",
    "002": "roth2020",
    "003": "lim2022",
    "004": "seidenschwarz2021",
}


def renamed(name: str) -> str | None:
    """Current name of a paper, preset or table whose former name began with a number; None for other names.

    >>> renamed("002"), renamed("002/cub"), renamed("002_table4"), renamed("roth2020/cub")
    ('roth2020', 'roth2020/cub', 'roth2020/table4', None)
    """
    paper = NUMBERS.get(name[:3])
    if paper is None or name[3:4] not in ("", "/", "_"):
        return None
    return f"{paper}/{name[4:]}" if name[4:] else paper
