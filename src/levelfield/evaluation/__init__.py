"""Evaluation: metrics of retrieval, of clustering and of geometry; every figure knows how it was made."""

from __future__ import annotations

from levelfield.evaluation.dispersion import Density, alignment, density, uniformity
from levelfield.evaluation.engine import evaluate
from levelfield.evaluation.kmeans import kmeans
from levelfield.evaluation.metrics import Facts, describe, names, parse, register, split
from levelfield.evaluation.result import ClassMeans, Evaluation, Intervals
from levelfield.evaluation.signature import Definition, Representation, Signature, compatible
from levelfield.evaluation.spectra import class_spectra, class_spectrum, spectral_decay, spectrum

__all__ = [
    "ClassMeans",
    "Definition",
    "Density",
    "Evaluation",
    "Facts",
    "Intervals",
    "Representation",
    "Signature",
    "alignment",
    "class_spectra",
    "class_spectrum",
    "compatible",
    "density",
    "describe",
    "evaluate",
    "kmeans",
    "names",
    "parse",
    "register",
    "spectral_decay",
    "spectrum",
    "split",
    "uniformity",
]
