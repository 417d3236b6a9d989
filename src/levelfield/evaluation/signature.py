"""Signatures: the definition of a score as data, so that scores with different definitions never share a column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

ENGINE = "1"  # increase it when the same embeddings could get a different score


@dataclass(frozen=True)
class Definition:
    """Definition of the score. Equal within a column."""

    metric: str
    self_excluded: str  # "id": the query's own row is excluded by id; "none": no query is in the gallery
    ties: str
    lone: str
    average: str
    distance: str
    queries: int
    gallery: int
    clusterer: str = "none"
    engine: str = ENGINE
    sample: str = "none"  # "10000of1000000-seed0": the measured queries are a random sample


@dataclass(frozen=True)
class Representation:
    """The compared embeddings. May differ within a column as a declared deviation."""

    dim: int
    bits: int = 32  # per value
    norm: str = "unit"
    refined: str = "none"
    ensemble: int = 1


@dataclass(frozen=True)
class Signature:
    """Definition and representation of one score.

    >>> definition = Definition("recall@1", "id", "expected", "exclude", "query", "cosine", 5200, 5200)
    >>> signature = Signature(definition, Representation(dim=128))
    >>> print(signature)
    recall@1|self:id|ties:expected|lone:exclude|avg:query|dist:cosine|q:5200|g:5200|v:1|dim:128|bits:32|norm:unit
    >>> print(signature.declared(ensemble=4).representation.ensemble)
    4
    """

    definition: Definition
    representation: Representation

    def __str__(self) -> str:
        score, rows = self.definition, self.representation
        facts = {
            "self": score.self_excluded,
            "ties": score.ties,
            "lone": score.lone,
            "avg": score.average,
            "dist": score.distance,
            "q": score.queries,
            "g": score.gallery,
            **({"clusters": score.clusterer} if score.clusterer != "none" else {}),
            **({"sample": score.sample} if score.sample != "none" else {}),
            "v": score.engine,
            "dim": rows.dim,
            "bits": rows.bits,
            "norm": rows.norm,
            **({"refined": rows.refined} if rows.refined != "none" else {}),
            **({"ensemble": rows.ensemble} if rows.ensemble != 1 else {}),
        }
        return "|".join([score.metric, *(f"{key}:{value}" for key, value in facts.items())])

    def declared(self, **changes: Any) -> Signature:
        """Copy with facts of the representation that only the caller knows: `refined=`, `ensemble=`."""
        return replace(self, representation=replace(self.representation, **changes))
