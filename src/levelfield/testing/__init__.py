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

from levelfield.testing._check import (
    Finding,
    LawBroken,
    Verdict,
    applicable,
    broken_laws,
    check_objective,
    findings,
    verdicts,
)
from levelfield.testing._laws import LAWS
from levelfield.testing._measuring import CLASSES, DIM, Factory, Law, degenerate, ordinary

__all__ = [
    "CLASSES",
    "DIM",
    "LAWS",
    "Factory",
    "Finding",
    "Law",
    "LawBroken",
    "Verdict",
    "applicable",
    "broken_laws",
    "check_objective",
    "degenerate",
    "findings",
    "ordinary",
    "verdicts",
]
