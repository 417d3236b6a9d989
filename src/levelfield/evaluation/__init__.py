"""Evaluation: retrieval, clustering and geometry metrics; every score carries its definition."""

from typing import TYPE_CHECKING

from levelfield.index import lazy

if TYPE_CHECKING:
    from levelfield.evaluation.compacting import Compacted as Compacted
    from levelfield.evaluation.compacting import compact as compact
    from levelfield.evaluation.engine import evaluate as evaluate
    from levelfield.evaluation.metrics.dispersion import Density as Density
    from levelfield.evaluation.metrics.dispersion import alignment as alignment
    from levelfield.evaluation.metrics.dispersion import density as density
    from levelfield.evaluation.metrics.dispersion import uniformity as uniformity
    from levelfield.evaluation.metrics.kmeans import kmeans as kmeans
    from levelfield.evaluation.metrics.registry import MetricFacts as MetricFacts
    from levelfield.evaluation.metrics.registry import create as create
    from levelfield.evaluation.metrics.registry import describe as describe
    from levelfield.evaluation.metrics.registry import names as names
    from levelfield.evaluation.metrics.registry import parse as parse
    from levelfield.evaluation.metrics.registry import register as register
    from levelfield.evaluation.metrics.registry import split as split
    from levelfield.evaluation.metrics.spectra import class_spectra as class_spectra
    from levelfield.evaluation.metrics.spectra import class_spectrum as class_spectrum
    from levelfield.evaluation.metrics.spectra import spectral_decay as spectral_decay
    from levelfield.evaluation.metrics.spectra import spectrum as spectrum
    from levelfield.evaluation.metrics.threshold import Rate as Rate
    from levelfield.evaluation.metrics.threshold import Rates as Rates
    from levelfield.evaluation.metrics.threshold import Threshold as Threshold
    from levelfield.evaluation.metrics.threshold import same_or_not as same_or_not
    from levelfield.evaluation.metrics.unknowns import Unknowns as Unknowns
    from levelfield.evaluation.metrics.unknowns import unknowns as unknowns
    from levelfield.evaluation.query_blocks import Shards as Shards
    from levelfield.evaluation.query_blocks import in_processes as in_processes
    from levelfield.evaluation.query_blocks import on_ray as on_ray
    from levelfield.evaluation.result import ClassMeans as ClassMeans
    from levelfield.evaluation.result import Evaluation as Evaluation
    from levelfield.evaluation.result import Sample as Sample
    from levelfield.evaluation.result import paired_differences as paired_differences
    from levelfield.evaluation.search.distances import joined as joined
    from levelfield.evaluation.search.ranking import Division as Division
    from levelfield.evaluation.signature import Definition as Definition
    from levelfield.evaluation.signature import Representation as Representation
    from levelfield.evaluation.signature import Signature as Signature
    from levelfield.evaluation.statistics.intervals import Interval as Interval

if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name
    __all__, __getattr__ = lazy(__name__)
