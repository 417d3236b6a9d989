"""Protocols: which classes train, validate and test. A group of classes is never divided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelfield.data.catalog import Catalog
from levelfield.errors import BadInput, BadSpecification
from levelfield.registry import Registry
from levelfield.settings import accepted, check_keywords

registry: Registry[list[Fold]] = Registry("protocol", "protocols")
register, names, describe = registry.register, registry.names, registry.facts


@dataclass(frozen=True, eq=False)
class Fold:
    """Image indices (ascending) into the catalog. No class, and no group of classes, is in two of the three."""

    name: str
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def create(name: str, catalog: Catalog, validation: float = 0.0, **settings: Any) -> list[Fold]:
    """The folds of protocol `name`. `validation` is the share of the training classes that validates.

    >>> from pathlib import Path
    >>> catalog = Catalog("eight", (Path("x"),) * 8, np.repeat(np.arange(4), 2), tuple("abcd"))
    >>> [fold] = create("standard", catalog)
    >>> fold.train.tolist(), fold.test.tolist()
    ([0, 1, 2, 3], [4, 5, 6, 7])
    """
    protocol = registry.get(name)
    check_keywords(f"protocol '{name}'", settings, protocol)
    if not 0 <= validation < 1:
        raise BadSpecification(f"validation is a share of the training classes, from 0 to below 1, not {validation}.")
    return protocol(catalog, validation=validation, **settings)


def fold_count(name: str, settings: Mapping[str, Any] | None = None) -> int:
    """How many folds a protocol has, without looking at any data: what its setting `folds` says, else one.

    >>> fold_count("standard")
    1
    """
    takes = accepted(registry.get(name)) or {}
    return int({**takes, **(settings or {})}.get("folds", 1))


@register("standard", "First half of the classes trains, second half tests; the last training classes may validate.")
def standard(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    if catalog.num_classes < 4:
        raise BadInput(f"'{catalog.name}' has {catalog.num_classes} classes; the protocol 'standard' needs at least 4, "
                       "two to train and two to test.")
    units = _units(catalog)
    if len(units) < 2:
        raise BadInput(f"All classes of '{catalog.name}' belong to one group, and a group is never divided between "
                       "train and test.")
    half = catalog.num_classes // 2
    cut = _nearest_boundary(units, half) if _contiguous(catalog) else _reaching_boundary(units, half)
    return [_fold("standard", catalog, units[:cut], units[cut:], validation)]


@register("all-classes", "Every class trains, none tests: for the model that is used afterwards.")
def all_classes(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    if catalog.num_classes < 2:
        raise BadInput(f"'{catalog.name}' has {catalog.num_classes} class; training needs at least 2.")
    return [_fold("all-classes", catalog, _units(catalog), [], validation)]


@register("choosing", "The training half of 'standard' alone; its validation classes stand in for the test classes.")
def choosing(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    """For choosing hyperparameters: the test classes are in no part, so they cannot choose anything."""
    if not validation:
        raise BadSpecification("The protocol 'choosing' needs `validation`: the share of training classes that judges.")
    whole = standard(catalog, validation=validation)[0]
    return [Fold("choosing", whole.train, np.empty(0, dtype=np.int64), whole.validation)]


def _units(catalog: Catalog) -> list[np.ndarray]:
    """What may not be divided, in order of first appearance: groups of classes, or the classes one by one."""
    if catalog.groups is None:
        return [np.array([c]) for c in range(catalog.num_classes)]
    _, first, members = np.unique(catalog.groups, return_index=True, return_inverse=True)
    by_group = np.split(np.argsort(members, kind="stable"), np.cumsum(np.bincount(members))[:-1])
    return [by_group[g] for g in np.argsort(first)]


def _contiguous(catalog: Catalog) -> bool:
    if catalog.groups is None:
        return True
    changes = 1 + np.count_nonzero(np.diff(catalog.groups))
    return bool(changes == len(np.unique(catalog.groups)))


def _nearest_boundary(units: list[np.ndarray], classes: int) -> int:
    """How many whole units come nearest to `classes` classes, leaving something on both sides."""
    ends = np.cumsum([len(unit) for unit in units])[:-1]
    return 1 + int(np.argmin(np.abs(ends - classes)))


def _reaching_boundary(units: list[np.ndarray], classes: int) -> int:
    """How many whole units are needed to reach `classes` classes, leaving something for the other side."""
    ends = np.cumsum([len(unit) for unit in units])[:-1]
    return min(1 + int(np.searchsorted(ends, classes)), len(ends))


def _fold(
    name: str, catalog: Catalog, train: list[np.ndarray], test: list[np.ndarray], validation: float
) -> Fold:
    validating: list[np.ndarray] = []
    if validation > 0:
        classes = sum(len(unit) for unit in train)
        if len(train) < 2:
            raise BadInput(f"The training half of '{catalog.name}' is one group of classes: nothing can validate.")
        # At least two classes: with one, every neighbour is right.
        cut = _nearest_boundary(train, classes - max(2, round(validation * classes)))
        train, validating = train[:cut], train[cut:]
    fold = Fold(name, *(_images(catalog, units) for units in (train, validating, test)))
    if len(np.unique(catalog.labels[fold.train])) < 2:
        raise BadInput(f"'{catalog.name}' leaves fewer than 2 classes to train; give more classes or less validation.")
    for part, units in (("validation", validating), ("test", test)):
        if units and catalog.class_sizes[np.concatenate(units)].max() < 2:
            raise BadInput(f"No {part} class of '{catalog.name}' has two images, so no image has anything to be found: "
                           "add images to these classes.")
    return fold


def _images(catalog: Catalog, units: list[np.ndarray]) -> np.ndarray:
    if not units:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(np.isin(catalog.labels, np.concatenate(units)))
