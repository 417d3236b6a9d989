"""Evaluation: metrics of retrieval, of clustering and of geometry; every figure knows how it was made."""

from __future__ import annotations

from levelfield.evaluation.dispersion import Density, alignment, density, uniformity
from levelfield.evaluation.engine import evaluate
from levelfield.evaluation.joining import joined, separated
from levelfield.evaluation.kmeans import kmeans
from levelfield.evaluation.metrics import Facts, describe, names, parse, register, split
from levelfield.evaluation.mistakes import Rate, Rates
from levelfield.evaluation.result import ClassMeans, Evaluation
from levelfield.evaluation.signature import Definition, Representation, Signature, compatible
from levelfield.evaluation.spectra import class_spectra, class_spectrum, spectral_decay, spectrum
from levelfield.evaluation.statistics import Interval
from levelfield.evaluation.threshold import Threshold, same_or_not

__all__ = [
    "ClassMeans",
    "Definition",
    "Density",
    "Evaluation",
    "Facts",
    "Interval",
    "Rate",
    "Rates",
    "Representation",
    "Signature",
    "Threshold",
    "alignment",
    "class_spectra",
    "class_spectrum",
    "compatible",
    "density",
    "describe",
    "evaluate",
    "joined",
    "kmeans",
    "names",
    "parse",
    "register",
    "same_or_not",
    "separated",
    "spectral_decay",
    "spectrum",
    "split",
    "uniformity",
]
