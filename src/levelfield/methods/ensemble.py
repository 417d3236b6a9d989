"""Ensembles (seidenschwarz2021 F, DREML, MLRC): separately trained networks with concatenated embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from levelfield.errors import BadSpecification
from levelfield.methods._contract import Method, register


@register("ensemble")
class Ensemble(Method):
    """The embeddings of other methods, each normalised to length 1 and concatenated. Nothing is trained.

    of: labels of the study, or folders of finished runs on the same test images.
    seeds: "each" joins the runs of one seed, giving one ensemble per seed; "all" joins all seeds of a label into one
    ensemble, as in seidenschwarz2021 (table 8: 2 or 5 networks that differ only in their seed); a list joins only
    these.
    """

    joins = True
    trains = False
    tunable = False

    def __init__(self, *, of: str | Sequence[str], seeds: Literal["each", "all"] | Sequence[int] = "each") -> None:
        super().__init__()
        joined = self.requires({"of": of})
        self.seeds = seeds if isinstance(seeds, str) else tuple(seeds)
        if not joined or len(set(joined)) != len(joined):
            raise BadSpecification(f"'of' is {of!r}; it must name the methods to join, each once.")
        if len(joined) == 1 and self.seeds == "each":
            raise BadSpecification(
                f"An ensemble of '{joined[0]}' alone, seed by seed, equals that run: add another method, or set "
                "`seeds: all` to join its seeds."
            )

    @classmethod
    def requires(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        of = settings.get("of", ())
        return (of,) if isinstance(of, str) else tuple(map(str, of))

    @classmethod
    def joined_seeds(cls, settings: Mapping[str, Any]) -> str | tuple[int, ...]:
        seeds = settings.get("seeds", "each")
        return seeds if isinstance(seeds, str) else tuple(map(int, seeds))
