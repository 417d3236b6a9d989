"""Evaluation: ranks become retrieval metrics, clusters clustering metrics; every figure knows how it was made."""

from __future__ import annotations

from levelfield.evaluation.engine import evaluate
from levelfield.evaluation.kmeans import kmeans
from levelfield.evaluation.metrics import Facts, describe, names, parse, register
from levelfield.evaluation.result import ClassMeans, Evaluation
from levelfield.evaluation.signature import Definition, Representation, Signature, compatible

__all__ = [
    "ClassMeans",
    "Definition",
    "Evaluation",
    "Facts",
    "Representation",
    "Signature",
    "compatible",
    "describe",
    "evaluate",
    "kmeans",
    "names",
    "parse",
    "register",
]
