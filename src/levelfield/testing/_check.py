"""All laws at once, on anybody's loss."""

from __future__ import annotations

from levelfield.errors import LevelfieldError
from levelfield.testing._laws import LAWS, Factory


class LawBroken(LevelfieldError, AssertionError):
    """An objective does not do what every objective must: the message names each law and what was seen."""


def broken_laws(factory: Factory) -> dict[str, str]:
    """Law -> what was seen, for each law that the objectives of `factory` break. Laws among its tags are left out.

    `factory(**extra)` makes a new objective (any `nn.Module` with `forward(embeddings, labels)`) for
    `levelfield.testing.CLASSES` classes and `DIM` dimensions, with equal parameters each time.

    >>> from levelfield.objectives import Triplet
    >>> broken_laws(Triplet)
    {}
    """
    tags = getattr(getattr(factory(), "facts", None), "tags", {})
    broken = {}
    for law in LAWS:
        if law.__name__ in tags:
            continue
        try:
            law(factory)
        except Exception as error:  # whatever a stranger's loss raises is the finding that is reported
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            broken[law.__name__] = f"{kind}{error}"
    return broken


def check_objective(factory: Factory) -> None:
    """Raise LawBroken if the objectives that `factory` makes break a law.

    >>> from levelfield import objectives
    >>> check_objective(lambda **extra: objectives.create("proxy_anchor", num_classes=4, dim=8, **extra))
    """
    broken = broken_laws(factory)
    if broken:
        listed = "\n".join(f"- {law}: {seen.strip().splitlines()[0]}" for law, seen in broken.items())
        raise LawBroken(f"{len(broken)} of {len(LAWS)} laws are broken:\n{listed}")
