"""The figures of a study by name: what each shows, and for which studies it can be drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from levelfield import methods
from levelfield.registry import Registry
from levelfield.reports.figures._drawing import plainly
from levelfield.reports.figures._rows import Drawn
from levelfield.studies.specification.study import Study

Draw = Callable[[list[Drawn], str, Path], Path]
"""`draw(rows, metric, path)` draws the rows of a leaderboard and returns the path of the file that it wrote."""
registry: Registry[Path] = Registry("figure", "figures", home="levelfield.reports.figures")
names = registry.names


@dataclass(frozen=True)
class FigureFacts:
    """Facts about a figure. why_not: why it cannot be drawn for a study, and what to change; None if it can.

    The specification alone decides that: nothing is trained, read or imported for it.
    """

    what: str
    why_not: Callable[[Study], str | None] = lambda study: None


def register(name: str, what: str, **facts: Callable[[Study], str | None]) -> Callable[[Draw], Draw]:
    """Decorator: register a drawing function with a sentence on what it shows, and `why_not` if it needs one.

    Its text is literal.
    """
    return lambda draw: registry.register(name, FigureFacts(what, **facts))(plainly(draw))


def create(name: str) -> Draw:
    """The function that draws the figure `name`, or `my_figures.py:function`."""
    return registry.get(name)


def describe(name: str) -> FigureFacts:
    """The facts of the figure `name`.

    >>> describe("cost").what
    'the first metric against training time, memory, rows through the trunk and operations per image, with the front'
    """
    facts: FigureFacts | None = registry.facts(name)
    return facts or FigureFacts((create(name).__doc__ or name).partition("\n")[0])


def why_not(name: str, study: Study) -> str | None:
    """Why the figure `name` cannot be drawn for the study, and what to change; None if it can.

    >>> study = Study.model_validate({"data": "emoji", "methods": ["margin"]})
    >>> why_not("leaderboard", study), why_not("sweep", study)
    (None, 'nothing varies: give `vary` one key, or two for a heat map, e.g. vary: {conditions.dim: [64, 128]}')
    """
    return describe(name).why_not(study)


def nothing_trains(study: Study) -> str | None:
    """The reason for figures that need a trained method."""
    if any(methods.trains(method.name) for method in study.methods):
        return None
    return "no method of the study trains anything: add one that does, such as margin"
