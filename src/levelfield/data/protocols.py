"""Protocols: which classes train, validate and test. A group of classes is never divided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from levelfield.data.catalog import Catalog
from levelfield.data.division import blocks, given_validation, halves, late, nearest_boundary, undivided
from levelfield.errors import BadInput, BadSpecification
from levelfield.registry import Registry
from levelfield.settings import accepted, check_keywords, whole

registry: Registry[list[Fold]] = Registry("protocol", "protocols")
register, names, describe = registry.register, registry.names, registry.facts


@dataclass(frozen=True, eq=False)
class Fold:
    """Image indices (ascending) into the catalog.

    No class, and no group of classes, is in two of the three, unless `closed` is set: then the classes are the same.
    query, gallery: the two parts of `test`, if queries are searched in a gallery; None if every test image is searched
    among all the others.
    """

    name: str
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    query: np.ndarray | None = None
    gallery: np.ndarray | None = None
    closed: bool = False


def create(name: str, catalog: Catalog, validation: float = 0.0, **settings: Any) -> list[Fold]:
    """The folds of protocol `name`. `validation` is the share of the training classes used for validation.

    settings: the protocol's own settings, such as `form="rotating"` of mlrc.

    >>> from pathlib import Path
    >>> catalog = Catalog("eight", (Path("x"),) * 8, np.repeat(np.arange(4), 2), tuple("abcd"))
    >>> [fold] = create("standard", catalog)
    >>> fold.train.tolist(), fold.test.tolist()
    ([0, 1, 2, 3], [4, 5, 6, 7])
    """
    protocol = registry.get(name)
    check_keywords(f"protocol '{name}'", settings, protocol)
    if not 0 <= validation < 1:
        raise BadSpecification(f"validation must be a share of the classes from 0 to below 1, not {validation}.")
    return protocol(catalog, validation=validation, **settings)


def fold_count(name: str, settings: Mapping[str, Any] | None = None) -> int:
    """The number of folds of a protocol, without reading any data: its setting `folds`, else one.

    >>> fold_count("standard"), fold_count("mlrc")
    (1, 4)
    """
    takes = accepted(registry.get(name)) or {}
    return whole("folds", {**takes, **(settings or {})}.get("folds", 1))


@register(
    "standard",
    "The official split; without one, the first half of the classes trains and the second half tests. The "
    "last training classes may validate.",
)
def standard(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    train, test = halves(catalog, "standard")
    given = given_validation(catalog)
    if given and validation:
        raise BadSpecification(f"'{catalog.name}' already defines which classes validate: remove `validation`.")
    return [_with_roles(catalog, _fold("standard", catalog, train, test, validation, given))]


@register(
    "query-gallery",
    "Like standard, for data with query and gallery images (In-Shop): queries are searched in the gallery only.",
)
def query_gallery(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    [fold] = standard(catalog, validation=validation)
    if fold.query is None:
        raise BadInput(
            f"The test images of '{catalog.name}' are not all marked as query or gallery, which the "
            "protocol 'query-gallery' needs: see the column `role` of a CSV file."
        )
    return [replace(fold, name="query-gallery")]


@register(
    "closed",
    "The same classes train and test, by the official split of the images (ImageNet in zheng2021); a share of "
    "the training images of each class may validate.",
)
def closed(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    parts = catalog.parts
    if parts is None:
        raise BadInput(
            f"The protocol 'closed' needs a split of the images of each class, and '{catalog.name}' has "
            "none: see the column `split` of a CSV file."
        )
    train, test = np.flatnonzero(parts == "train"), np.flatnonzero(parts == "test")
    if not len(test) or not np.isin(catalog.labels[test], catalog.labels[train]).all():
        raise BadInput(
            f"Some test classes of '{catalog.name}' are missing from the training split; the protocol 'closed' "
            "needs the same classes in both. For unseen test classes, use the protocol 'standard'."
        )
    if np.bincount(catalog.labels[test]).max() < 2:
        raise BadInput(f"No class of '{catalog.name}' has two test images, so no query has a positive.")
    given = np.flatnonzero(parts == "validation")
    if validation and len(given):
        raise BadSpecification(f"'{catalog.name}' already defines which images validate: remove `validation`.")
    if validation:
        held_back = late(catalog.labels[train], validation)
        train, given = train[~held_back], train[held_back]
    return [_with_roles(catalog, Fold("closed", train, given, test, closed=True))]


@register(
    "mlrc",
    "Four folds of the training half: three blocks of its classes train, one validates; the second half "
    "tests (Musgrave et al. 2020).",
)
def mlrc(
    catalog: Catalog, *, validation: float = 0.0, folds: int = 4, form: str = "kfold", reversed: bool = False
) -> list[Fold]:
    """reversed: one block trains and the others validate, as stated in zheng2021. Off by default."""
    if validation:
        raise BadSpecification("The protocol 'mlrc' validates on a fold of the training classes: remove `validation`.")
    train, test = halves(catalog, "mlrc")
    train = [*train, *given_validation(catalog)]
    found = []
    for number, (rest, block) in enumerate(blocks(catalog, train, folds, form)):
        training, judging = (block, rest) if reversed else (rest, block)
        if min(len(training), len(judging)) < 2:
            raise BadInput(
                f"'{catalog.name}' has {sum(map(len, train))} training classes; with {folds} folds "
                "some fold has fewer than 2, and with one class every neighbour is correct. Use more classes "
                "or fewer folds."
            )
        found.append(_with_roles(catalog, _fold(f"mlrc-{number}", catalog, [training], test, 0.0, [judging])))
    return found


@register("all-classes", "Every class trains, none tests: for the final model.")
def all_classes(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    if catalog.num_classes < 2:
        raise BadInput(f"'{catalog.name}' has {catalog.num_classes} class; training needs at least 2.")
    return [_fold("all-classes", catalog, undivided(catalog), [], validation)]


@register("choosing", "Only the training half of 'standard'; its validation classes replace the test classes.")
def choosing(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    """For hyperparameter search: the test classes are in no part, so they cannot influence the choice."""
    if not validation:
        raise BadSpecification("The protocol 'choosing' needs `validation`: a share of the training classes.")
    whole = standard(catalog, validation=validation)[0]
    return [Fold("choosing", whole.train, np.empty(0, dtype=np.int64), whole.validation)]


def _with_roles(catalog: Catalog, fold: Fold) -> Fold:
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


def _fold(
    name: str,
    catalog: Catalog,
    train: list[np.ndarray],
    test: list[np.ndarray],
    validation: float,
    validating: list[np.ndarray] | None = None,
) -> Fold:
    """`validating`: the classes that validate; without them, the last `validation` of the training classes."""
    validating = validating or []
    if validation > 0:
        classes = sum(len(unit) for unit in train)
        if len(train) < 2:
            raise BadInput(f"The training half of '{catalog.name}' is one group of classes: none can validate.")
        # At least two classes: with one, every neighbour is right.
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


def _images(catalog: Catalog, units: list[np.ndarray]) -> np.ndarray:
    if not units:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(np.isin(catalog.labels, np.concatenate(units)))
