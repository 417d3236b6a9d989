"""Division of a catalog into folds: by the official split or in order, never within a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from levelfield.data.catalog import Catalog
from levelfield.data.protocols._registry import Fold
from levelfield.errors import BadInput, BadSpecification
from levelfield.settings import checked
from levelfield.wording import plural

Form = Literal["kfold", "rotating"]


def halves(catalog: Catalog, name: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Training and test classes, in indivisible units: the official split, else the sorted halves."""
    if catalog.num_classes < 4:
        raise BadInput(
            f"'{catalog.name}' has {catalog.num_classes} classes; the protocol '{name}' needs at least 4, "
            "two to train and two to test."
        )
    units = undivided(catalog)
    if catalog.parts is not None:
        return in_part(catalog, "train"), in_part(catalog, "test")
    if len(units) < 2:
        raise BadInput(
            f"All classes of '{catalog.name}' belong to one group, which cannot be divided between train and test."
        )
    half = catalog.num_classes // 2
    cut = nearest_boundary(units, half)
    groups = catalog.groups
    scattered = groups is not None and 1 + np.count_nonzero(np.diff(groups)) > len(np.unique(groups))
    if scattered:  # the number of units needed to reach half of the classes
        ends = np.cumsum([len(unit) for unit in units])[:-1]
        cut = min(1 + int(np.searchsorted(ends, half)), len(ends))
    return units[:cut], units[cut:]


def in_part(catalog: Catalog, part: str) -> list[np.ndarray]:
    """The indivisible units in `part` of the official split, if any; a unit in two parts is refused."""
    if catalog.parts is None:
        return []
    inside = np.unique(catalog.labels[catalog.parts == part])
    shared = np.intersect1d(inside, catalog.labels[catalog.parts != part])
    if len(shared):
        classes = plural(len(shared), f"class of '{catalog.name}' is", f"classes of '{catalog.name}' are")
        raise BadInput(
            f"{classes} in the {part} part and in another part, such as '{catalog.class_names[shared[0]]}'. If the "
            "same classes should train and test, use the protocol 'closed'."
        )
    belongs = np.zeros(catalog.num_classes, dtype=bool)
    belongs[inside] = True
    members = [unit for unit in undivided(catalog) if belongs[unit].any()]
    for unit in members:
        if not belongs[unit].all():
            raise BadInput(
                f"The split of '{catalog.name}' divides the group of '{catalog.class_names[unit[0]]}'; "
                "all classes of a group must be in the same part."
            )
    if not members and part != "validation":
        raise BadInput(f"No class of '{catalog.name}' is in the {part} part.")
    return members


def blocks(catalog: Catalog, units: list[np.ndarray], folds: int, form: Form) -> list[tuple[np.ndarray, np.ndarray]]:
    """(the other classes, a block of classes) for each fold. With groups, blocks end at the nearest group boundary."""
    classes = np.concatenate(units)
    if len(units) < folds:
        raise BadInput(
            f"The training half of '{catalog.name}' has {len(units)} "
            f"{'classes' if catalog.groups is None else 'groups of classes'}; {folds} folds need at least as many."
        )
    wanted = class_folds(classes, folds, form)
    if catalog.groups is None:
        return wanted
    if form != "kfold":
        raise BadSpecification(f"Folds of the form '{form}' would divide the groups of '{catalog.name}'; use 'kfold'.")
    ends = np.cumsum([len(unit) for unit in units])
    cuts: list[int] = []
    for number, edge in enumerate(np.cumsum([len(block) for _, block in wanted])[:-1]):
        # at least one unit for this block and for each later one
        free = np.arange(cuts[-1] + 1 if cuts else 0, len(units) - (folds - 1 - number))
        cuts.append(int(free[np.argmin(np.abs(ends[free] - edge))]))
    parts = np.split(classes, ends[cuts])
    return [(np.concatenate([*parts[:i], *parts[i + 1 :]]), part) for i, part in enumerate(parts)]


def late(labels: np.ndarray, share: float) -> np.ndarray:
    """(images,) bool: the last `share` of each class, at least one image and never all of them."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = np.minimum(sizes - 1, np.round((1 - share) * sizes).astype(np.int64)).clip(1)
    return np.asarray(rank >= kept[labels])


def undivided(catalog: Catalog) -> list[np.ndarray]:
    """Indivisible units in order of first appearance: groups of classes, or single classes."""
    if catalog.groups is None:
        return [np.array([c]) for c in range(catalog.num_classes)]
    _, first, members = np.unique(catalog.groups, return_index=True, return_inverse=True)
    by_group = np.split(np.argsort(members, kind="stable"), np.cumsum(np.bincount(members))[:-1])
    return [by_group[g] for g in np.argsort(first)]


def nearest_boundary(units: list[np.ndarray], classes: int) -> int:
    """The number of whole units nearest to `classes` classes, with at least one unit on each side."""
    ends = np.cumsum([len(unit) for unit in units])[:-1]
    return 1 + int(np.argmin(np.abs(ends - classes)))


@checked
def class_folds(
    classes: Sequence[int] | np.ndarray, folds: Annotated[int, Ge(2)] = 4, form: Form = "kfold"
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(train, validation) classes of each fold, both ascending. `classes` are sorted by their official id.

    kfold: contiguous blocks, sizes as equal as possible, larger ones first. rotating: the benchmark's older manager,
    fold i begins to train at class floor(i C / folds) and wraps; with 98 classes two are never validated.
    """
    classes = np.asarray(classes)
    if len(classes) < folds:
        raise BadSpecification(f"{len(classes)} classes cannot be divided into {folds} folds.")
    if form == "kfold":
        blocks = np.array_split(classes, folds)
    else:
        size = len(classes) // folds
        starts = [i * len(classes) // folds + len(classes) - size for i in range(folds)]
        blocks = [np.sort(np.take(classes, range(start, start + size), mode="wrap")) for start in starts]
    return [(classes[~np.isin(classes, block)], block) for block in blocks]


def with_roles(catalog: Catalog, fold: Fold) -> Fold:
    """Query and gallery images of the test part, if each of its images has one of these roles."""
    if catalog.roles is None or not len(fold.test):
        return fold
    roles = np.array(catalog.roles)[fold.test]
    query, gallery = fold.test[roles == "query"], fold.test[roles == "gallery"]
    if not len(query) or not len(gallery) or len(query) + len(gallery) < len(fold.test):
        return fold
    if not np.isin(catalog.labels[query], catalog.labels[gallery]).any():
        raise BadInput(f"No query of '{catalog.name}' has a positive in the gallery.")
    return replace(fold, query=query, gallery=gallery)


def fold_of(
    name: str,
    catalog: Catalog,
    train: list[np.ndarray],
    test: list[np.ndarray],
    validation: float,
    validating: Sequence[np.ndarray] = (),
) -> Fold:
    """A fold. validating: the validation classes, unless they are the last share `validation` of those to train."""
    if validation > 0:
        classes = sum(len(unit) for unit in train)
        if len(train) < 2:
            raise BadInput(
                f"The training half of '{catalog.name}' is one group of classes: none is left for validation."
            )
        # At least two classes: with one, every neighbour is correct.
        cut = nearest_boundary(train, classes - max(2, round(validation * classes)))
        train, validating = train[:cut], train[cut:]
    fold = Fold(name, _images(catalog, train), _images(catalog, validating), _images(catalog, test))
    if len(np.unique(catalog.labels[fold.train])) < 2:
        raise BadInput(f"'{catalog.name}' leaves fewer than 2 classes to train; use more classes or less validation.")
    for part, units in (("validation", validating), ("test", test)):
        if units and catalog.class_sizes[np.concatenate(units)].max() < 2:
            raise BadInput(
                f"No {part} class of '{catalog.name}' has two images, so no query has a positive: "
                "add images to these classes."
            )
    return fold


def _images(catalog: Catalog, units: Sequence[np.ndarray]) -> np.ndarray:
    return np.flatnonzero(np.isin(catalog.labels, np.concatenate([np.empty(0, dtype=np.int64), *units])))
