"""What a study could establish, said before anything trains: it knows its test classes, seeds and pairs of rows."""

from __future__ import annotations

import numpy as np

from levelfield.evaluation.statistics import MIN_CLASSES, detectable_effect
from levelfield.studies.runs.inputs import open_catalog
from levelfield.studies.runs.spec import PlannedRun

# recall@1 of methods on the embedded data: standard deviation of a pair's difference over classes (0.05 between two
# similar losses, 0.25 between a trained and an untrained row), and of a figure over seeds
OVER_CLASSES, OVER_SEEDS = 0.15, 0.003


def foresee(runs: list[PlannedRun]) -> str:
    """One sentence about the first test set of a plan: the smallest difference that would be found, if any."""
    first = runs[0].spec
    here = [run for run in runs if (run.spec.data, run.spec.protocol) == (first.data, first.protocol)]
    rows, seeds = len({run.row for run in here}), len({run.spec.seed for run in here})
    fold = first.protocol.divide(catalog := open_catalog(first.data, check=False))[first.fold or 0]
    tested = fold.test if fold.query is None else fold.query
    return sentence(len(np.unique(catalog.labels[tested])), seeds, rows * (rows - 1) // 2)


def sentence(classes: int, seeds: int, pairs: int) -> str:
    """In words.

    >>> sentence(4, 3, 45)
    '4 test classes: no difference can be established, whatever the methods do; 5 are the least.'
    >>> sentence(100, 3, 45)
    '100 test classes, 3 seeds, 45 pairs of rows: differences from about 0.064 on would be found (80 % power), if classes and seeds vary as on the embedded data.'
    """  # noqa: E501
    if not pairs:
        return ""
    if classes < MIN_CLASSES:
        told = f"{classes} test class{'es' * (classes != 1)}"
        return f"{told}: no difference can be established, whatever the methods do; {MIN_CLASSES} are the least."
    size = detectable_effect(classes, seeds, pairs, over_classes=OVER_CLASSES, over_seeds=OVER_SEEDS)
    told = f"{classes:,} test classes, {seeds} seed{'s' * (seeds != 1)}, {pairs:,} pair{'s' * (pairs != 1)} of rows"
    if size >= 1:
        return f"{told}: no difference can be established; even one of 1.0 would need more classes."
    again = "" if seeds > 1 else " With one seed they would be about these runs: training again is not tried."
    return (
        f"{told}: differences from about {size:.2g} on would be found (80 % power), if classes and seeds vary as on "
        f"the embedded data.{again}"
    )
