"""Evaluation: retrieval, clustering and geometry metrics; every score carries its definition."""

from __future__ import annotations

from levelfield.evaluation.compacting import Compacted, compact
from levelfield.evaluation.engine import evaluate
from levelfield.evaluation.metrics.dispersion import Density, alignment, density, uniformity
from levelfield.evaluation.metrics.kmeans import kmeans
from levelfield.evaluation.metrics.registry import Facts, create, describe, names, parse, register, split
from levelfield.evaluation.metrics.spectra import class_spectra, class_spectrum, spectral_decay, spectrum
from levelfield.evaluation.metrics.threshold import Rate, Rates, Threshold, same_or_not
from levelfield.evaluation.metrics.unknowns import Unknowns, unknowns
from levelfield.evaluation.query_blocks import Shards, in_processes, on_ray
from levelfield.evaluation.result import ClassMeans, Evaluation, Sample, paired_differences
from levelfield.evaluation.search.distances import joined
from levelfield.evaluation.search.ranking import Division
from levelfield.evaluation.signature import Definition, Representation, Signature
from levelfield.evaluation.statistics.intervals import Interval

__all__ = [
    "ClassMeans",
    "Compacted",
    "Definition",
    "Density",
    "Division",
    "Evaluation",
    "Facts",
    "Interval",
    "Rate",
    "Rates",
    "Representation",
    "Sample",
    "Shards",
    "Signature",
    "Threshold",
    "Unknowns",
    "alignment",
    "class_spectra",
    "class_spectrum",
    "compact",
    "create",
    "density",
    "describe",
    "evaluate",
    "in_processes",
    "joined",
    "kmeans",
    "names",
    "on_ray",
    "paired_differences",
    "parse",
    "register",
    "same_or_not",
    "spectral_decay",
    "spectrum",
    "split",
    "uniformity",
    "unknowns",
]
