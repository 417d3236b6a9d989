"""Conformance checks for user-defined parts: the same laws as for the built-in ones.

>>> from torch import nn
>>> class Bad(nn.Module):
...     def forward(self, embeddings, labels):
...         return embeddings.norm(dim=1).mean() * labels[0]
>>> from levelfield.testing import broken_laws
>>> "order_of_the_batch_is_irrelevant" in broken_laws(Bad)
True
"""

from __future__ import annotations

import sysconfig
import traceback
from functools import cache
from pathlib import Path
from typing import NamedTuple

import levelfield
from levelfield.errors import LevelfieldError
from levelfield.testing._laws import CONDITIONS, LAWS
from levelfield.testing._measuring import CLASSES, DIM, Factory, Law, degenerate, made_for, make, ordinary

__all__ = [
    "CLASSES", "DIM", "LAWS", "Factory", "Finding", "Law", "LawBroken", "Verdict", "applicable",
    "broken_laws", "check_objective", "degenerate", "findings", "ordinary", "verdicts",
]  # fmt: skip


class LawBroken(LevelfieldError, AssertionError):
    """An objective breaks a law; the message names each law and the observation."""


class Verdict(NamedTuple):
    """A law, whether it holds (None: it does not apply), and the observation or the reason why it does not apply.

    where: the line of the loss's code that raised an error, e.g. `mine.py, line 12, in forward`.
    """

    law: str
    holds: bool | None
    seen: str = ""
    where: str = ""


class Finding(NamedTuple):
    """Laws broken for the same reason, and the observation for the first of them."""

    laws: list[str]
    seen: str
    where: str


def findings(all_verdicts: list[Verdict]) -> list[Finding]:
    """Distinct faults: an error at one line of the loss may break many laws.

    >>> [broken] = findings([Verdict("a", False, "KeyError: 1", "mine.py, line 2"), Verdict("b", True),
    ...                      Verdict("c", False, "KeyError: 7", "mine.py, line 2")])
    >>> broken
    Finding(laws=['a', 'c'], seen='KeyError: 1', where='mine.py, line 2')
    """
    groups: dict[str, Finding] = {}
    for law, holds, seen, where in all_verdicts:
        if holds is False:
            message = first_line(seen)
            groups.setdefault(where or message, Finding([], message, where)).laws.append(law)
    return list(groups.values())


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def verdicts(factory: Factory, *, classes: int = CLASSES, dim: int = DIM) -> list[Verdict]:
    """Verdict of each law on the objectives of `factory`.

    `factory(**extra)` creates an objective (any `nn.Module` with `forward(embeddings, labels)`) for the given number of
    `classes` (4 or more) and dimensions, with equal parameters each time.

    >>> from levelfield.objectives import Triplet
    >>> verdicts(Triplet)[0]
    Verdict(law='loss_is_one_finite_number', holds=True, seen='', where='')
    """
    with made_for(classes=classes, dim=dim):
        return [_verdict(law, factory) for law in LAWS]


def _verdict(law: Law, factory: Factory) -> Verdict:
    try:
        reason = why_not(law, factory)
        if reason is None:
            law(factory)
    except (Exception, SystemExit) as error:  # any error of the loss is a finding
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        return Verdict(law.__name__, False, f"{kind}{error}", raised_at(error))
    return Verdict(law.__name__, True) if reason is None else Verdict(law.__name__, None, reason)


def why_not(law: Law, factory: Factory) -> str | None:
    """Reason why a law does not apply to the objectives of `factory`, by its tags or because it has nothing to test.

    >>> from levelfield.objectives import Histogram
    >>> [why_not(law, Histogram) for law in LAWS if law.__name__ == "loss_is_linear_in_the_weights"]
    ['it takes no weights']
    """
    tags: dict[str, str] = getattr(getattr(factory(), "facts", None), "tags", {})
    needed, reason = CONDITIONS.get(law, (lambda objective: True, ""))
    return tags.get(law.__name__) or (None if needed(make(factory)) else reason)


def applicable(factory: Factory) -> list[Law]:
    """The laws that apply to the objectives of `factory`, e.g. for `pytest.mark.parametrize`."""
    once = cache(factory)
    return [law for law in LAWS if why_not(law, once) is None]


def broken_laws(factory: Factory) -> dict[str, str]:
    """Broken laws of the objectives of `factory`, with the observations. Laws in its tags are skipped.

    >>> from levelfield.objectives import Triplet
    >>> broken_laws(Triplet)
    {}
    """
    return {verdict.law: verdict.seen for verdict in verdicts(factory) if verdict.holds is False}


def check_objective(factory: Factory) -> None:
    """Raise LawBroken if an objective of `factory` breaks a law.

    >>> from levelfield import objectives
    >>> check_objective(lambda **extra: objectives.create("proxy_anchor", num_classes=4, dim=8, **extra))
    """
    broken = findings(verdicts(factory))
    if broken:
        listed = "\n".join(
            f"- {', '.join(laws)}: {seen}" + (f" ({where})" if where else "") for laws, seen, where in broken
        )
        raise LawBroken(f"{sum(len(finding.laws) for finding in broken)} of {len(LAWS)} laws are broken:\n{listed}")


_OTHERS = tuple(
    str(Path(folder).resolve())
    for folder in (*levelfield.__path__, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))
)


def raised_at(error: BaseException) -> str:
    """File, line and function of the deepest frame outside levelfield, installed packages and Python itself.

    Searches the error and its causes; "" if no frame qualifies.
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if not frame.filename.startswith("<") and not path.resolve().as_posix().startswith(_OTHERS):
            shortest = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
            return f"{shortest}, line {frame.lineno}, in {frame.name}"
    return "" if error.__cause__ is None else raised_at(error.__cause__)
