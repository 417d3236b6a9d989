"""Classes into folds, as the MLRC protocol does it: train on all blocks but one, validate on that one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from levelfield.errors import BadSpecification
from levelfield.settings import one_of, whole

FORMS = ("kfold", "rotating")


def class_folds(
    classes: Sequence[int] | np.ndarray, folds: int = 4, form: str = "kfold"
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(train, validation) classes of each fold, both ascending. `classes` are sorted by their official id.

    kfold: contiguous blocks, sizes as equal as possible, larger ones first. rotating: the benchmark's older manager,
    fold i begins to train at class floor(i C / folds) and wraps; with 98 classes two are never validated.

    >>> [validation.tolist() for _, validation in class_folds(range(10), folds=4)]
    [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]
    """
    classes = np.asarray(classes)
    folds = whole("folds", folds, least=2)
    if len(classes) < folds:
        raise BadSpecification(f"{len(classes)} classes cannot be divided into {folds} folds.")
    if one_of("form", form, FORMS) == "kfold":
        blocks = np.array_split(classes, folds)
    else:
        size = len(classes) // folds
        starts = [i * len(classes) // folds + len(classes) - size for i in range(folds)]
        blocks = [np.sort(np.take(classes, range(start, start + size), mode="wrap")) for start in starts]
    return [(classes[~np.isin(classes, block)], block) for block in blocks]
