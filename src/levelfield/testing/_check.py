"""All laws at once, on anybody's loss."""

from __future__ import annotations

from typing import NamedTuple

from levelfield.errors import LevelfieldError
from levelfield.testing._batches import CLASSES, DIM, made_for
from levelfield.testing._laws import LAWS
from levelfield.testing._measuring import Factory


class LawBroken(LevelfieldError, AssertionError):
    """An objective does not do what every objective must: the message names each law and what was seen."""


class Verdict(NamedTuple):
    """A law, whether it holds (None: it does not apply), and what was seen or why it does not apply."""

    law: str
    holds: bool | None
    seen: str = ""


def verdicts(factory: Factory, *, classes: int = CLASSES, dim: int = DIM) -> list[Verdict]:
    """What each law says about the objectives of `factory`.

    `factory(**extra)` makes a new objective (any `nn.Module` with `forward(embeddings, labels)`) for so many `classes`
    (4 or more) and dimensions, with equal parameters each time.

    >>> from levelfield.objectives import Triplet
    >>> verdicts(Triplet)[0]
    Verdict(law='loss_is_one_finite_number', holds=True, seen='')
    """
    tags = getattr(getattr(factory(), "facts", None), "tags", {})
    found = []
    with made_for(classes=classes, dim=dim):
        for law in LAWS:
            if law.__name__ in tags:
                found.append(Verdict(law.__name__, None, tags[law.__name__]))
                continue
            try:
                reason = law(factory)
            except Exception as error:  # whatever a stranger's loss raises is the finding that is reported
                kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
                found.append(Verdict(law.__name__, False, f"{kind}{error}"))
            else:
                found.append(Verdict(law.__name__, True) if reason is None else Verdict(law.__name__, None, reason))
    return found


def broken_laws(factory: Factory) -> dict[str, str]:
    """Law -> what was seen, for each law that the objectives of `factory` break. Laws among its tags are left out.

    >>> from levelfield.objectives import Triplet
    >>> broken_laws(Triplet)
    {}
    """
    return {law: seen for law, holds, seen in verdicts(factory) if holds is False}


def check_objective(factory: Factory) -> None:
    """Raise LawBroken if the objectives that `factory` makes break a law.

    >>> from levelfield import objectives
    >>> check_objective(lambda **extra: objectives.create("proxy_anchor", num_classes=4, dim=8, **extra))
    """
    broken = broken_laws(factory)
    if broken:
        listed = "\n".join(f"- {law}: {seen.strip().splitlines()[0]}" for law, seen in broken.items())
        raise LawBroken(f"{len(broken)} of {len(LAWS)} laws are broken:\n{listed}")
