"""Messages for people: one root, and the class tells what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "BadInput",
    "BadSpecification",
    "Damaged",
    "LevelfieldError",
    "MissingData",
    "MissingExtra",
    "NotTrusted",
    "RunFailed",
    "Unfair",
    "UnknownName",
    "UnreadableImage",
    "nearest",
    "unknown",
]


class LevelfieldError(Exception):
    """Root of every error that levelfield raises on purpose. Its text is one clear message."""


class UnknownName(LevelfieldError):
    """A name that no part answers to: correct the spelling."""


class BadInput(LevelfieldError):
    """Images, labels, arrays or files that cannot be used: correct the data."""


class UnreadableImage(BadInput):
    """An image that cannot be decoded: mend it, remove it, or leave it out."""


class Damaged(BadInput):
    """A file that does not hold what it should: get it again, or make it again."""


class MissingData(BadInput):
    """Data or weights that are not on this machine: get them from their official page, or say where they are."""


class BadSpecification(LevelfieldError):
    """A study, condition or hyperparameter that makes no sense: correct the study."""


class MissingExtra(LevelfieldError):
    """An optional dependency is needed: install it."""


class Unfair(LevelfieldError):
    """A method departs from the conditions without declaring it: declare the deviation or remove it."""


class NotTrusted(LevelfieldError):
    """Code that a folder names and nobody allowed to run: read the file, then name it with --trust."""


class RunFailed(LevelfieldError):
    """A run stopped (non-finite loss, crash): see the run's folder."""


def nearest(name: object, names: Iterable[str]) -> str | None:
    """The most similar of `names`, or None if nothing is similar.

    >>> nearest("proxy_anchr", ["margin", "proxy_anchor"])
    'proxy_anchor'
    """
    by_folded = {candidate.lower().replace("-", "_"): candidate for candidate in names}
    close = difflib.get_close_matches(str(name).lower().replace("-", "_"), list(by_folded), n=1, cutoff=0.5)
    return by_folded[close[0]] if close else None


def unknown(kind: str, name: object, names: Iterable[str], *, see: str | None = None) -> UnknownName:
    """The error for a name that does not exist: says the nearest one and where to see all.

    >>> print(unknown("objective", "margn", ["margin", "triplet"], see="levelfield list objectives"))
    Unknown objective 'margn'. Did you mean 'margin'? See `levelfield list objectives`.
    """
    names = sorted(names)
    close = nearest(name, names)
    hint = f" Did you mean '{close}'?" if close else f" There are: {', '.join(names)}."
    return UnknownName(f"Unknown {kind} '{name}'.{hint}" + (f" See `{see}`." if see else ""))
