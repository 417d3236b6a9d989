"""Predict the smallest difference that a study can detect, from its test classes, seeds and pairs of rows."""

from __future__ import annotations

import numpy as np

from levelfield.evaluation.statistics.crossed import MIN_CLASSES
from levelfield.evaluation.statistics.needed import detectable_effect
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.spec import PlannedRun
from levelfield.wording import plural

# recall@1 of methods on the embedded data: standard deviation of a pair's difference over classes (0.05 between two
# similar losses, 0.25 between a trained and an untrained row), and of a score over seeds
OVER_CLASSES, OVER_SEEDS = 0.15, 0.003


def foresee(runs: list[PlannedRun]) -> str:
    """One sentence on the first test set of a plan: the smallest detectable difference, if any."""
    first = runs[0].spec
    here = [run for run in runs if (run.spec.data, run.spec.protocol) == (first.data, first.protocol)]
    rows, seeds = len({run.row for run in here}), len({run.spec.seed for run in here})
    inputs = inputs_for(first, None, "cpu")
    tested = inputs.fold.test if inputs.fold.query is None else inputs.fold.query
    return sentence(len(np.unique(inputs.catalog.labels[tested])), seeds, rows * (rows - 1) // 2)


def sentence(classes: int, seeds: int, pairs: int) -> str:
    """The sentence for given numbers.

    >>> sentence(4, 3, 45)
    '4 test classes: too few to establish any difference; at least 5 are needed.'
    >>> sentence(100, 3, 45)
    '100 test classes, 3 seeds, 45 pairs of rows: smallest detectable difference about 0.064 (80 % power), if classes and seeds vary as on the embedded data.'
    """  # noqa: E501
    if not pairs:
        return ""
    tests = plural(classes, "test class", "test classes")
    if classes < MIN_CLASSES:
        return f"{tests}: too few to establish any difference; at least {MIN_CLASSES} are needed."
    size = detectable_effect(classes, seeds, pairs, over_classes=OVER_CLASSES, over_seeds=OVER_SEEDS)
    design = f"{tests}, {plural(seeds, 'seed', 'seeds')}, {plural(pairs, 'pair of rows', 'pairs of rows')}"
    if size >= 1:
        return f"{design}: no difference can be established; even a difference of 1.0 needs more classes."
    again = "" if seeds > 1 else " With one seed, verdicts hold only for these runs, since training is not repeated."
    return (
        f"{design}: smallest detectable difference about {size:.2g} (80 % power), if classes and seeds vary as on "
        f"the embedded data.{again}"
    )
