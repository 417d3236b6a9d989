"""Protocols by the official split or the order of the classes: one fold, with a gallery, several folds, closed; and for
trials of settings, whose scores come from validation classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from levelfield.data.catalog import Catalog
from levelfield.data.division import Form, blocks, fold_of, halves, in_part, late, undivided, with_roles
from levelfield.data.protocols._registry import Fold, create, register
from levelfield.errors import BadInput, BadSpecification

_CLASS_DISJOINT = ("standard", "mlrc", "query-gallery")


@register(
    "standard",
    "The official split; without one, the first half of the classes for training and the second half for test. "
    "Optionally, the last training classes for validation.",
)
def standard(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    train, test = halves(catalog, "standard")
    validation_classes = in_part(catalog, "validation")
    if validation_classes and validation:
        raise BadSpecification(f"'{catalog.name}' already defines its validation classes: remove `validation`.")
    return [with_roles(catalog, fold_of("standard", catalog, train, test, validation, validation_classes))]


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
    "mlrc",
    "Four folds of the training half: three blocks of its classes for training, one for validation; the second "
    "half for test (Musgrave et al. 2020).",
)
def mlrc(
    catalog: Catalog, *, validation: float = 0.0, folds: int = 4, form: Form = "kfold", reversed: bool = False
) -> list[Fold]:
    """reversed: one block for training and the others for validation, as stated in zheng2021."""
    if validation:
        raise BadSpecification("The protocol 'mlrc' validates on a fold of the training classes: remove `validation`.")
    train, test = halves(catalog, "mlrc")
    train = [*train, *in_part(catalog, "validation")]
    result = []
    for number, (rest, block) in enumerate(blocks(catalog, train, folds, form)):
        training, judging = (block, rest) if reversed else (rest, block)
        if min(len(training), len(judging)) < 2:
            count = f"{sum(map(len, train))} training classes; with {folds} folds some fold has fewer than 2"
            raise BadInput(
                f"'{catalog.name}' has {count}, and with one class every neighbour is correct. Use more classes or "
                "fewer folds."
            )
        result.append(with_roles(catalog, fold_of(f"mlrc-{number}", catalog, [training], test, 0.0, [judging])))
    return result


@register(
    "closed",
    "The same classes for training and test, by the official split of the images (ImageNet in zheng2021); "
    "optionally, a share of the training images of each class for validation.",
)
def closed(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    parts = catalog.parts
    if parts is None:
        raise BadInput(
            f"The protocol 'closed' needs a split of the images of each class, but '{catalog.name}' has "
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
    validation_images = np.flatnonzero(parts == "validation")
    if validation and len(validation_images):
        raise BadSpecification(f"'{catalog.name}' already defines its validation images: remove `validation`.")
    if validation:
        held_back = late(catalog.labels[train], validation)
        train, validation_images = train[~held_back], train[held_back]
    return [with_roles(catalog, Fold("closed", train, validation_images, test, closed=True))]


@register("all-classes", "All classes for training, none for test: for the final model.")
def all_classes(catalog: Catalog, *, validation: float = 0.0) -> list[Fold]:
    if catalog.num_classes < 2:
        raise BadInput(f"'{catalog.name}' has {catalog.num_classes} class; training needs at least 2.")
    return [fold_of("all-classes", catalog, undivided(catalog), [], validation)]


@register("choosing", "For trials: scores come from a protocol's validation classes; its test classes are not used.")
def choosing(
    catalog: Catalog, *, validation: float = 0.0, of: Mapping[str, Any] | None = None, parts: int = 1, part: int = 0
) -> list[Fold]:
    """of: the study's own protocol, `{name: standard}` by default. parts, part: validate on class-disjoint part `part`
    of `parts` of the training classes instead of the last ones (Musgrave et al. 2020)."""
    settings = {key: value for key, value in (of or {"name": "standard"}).items() if key != "validation"}
    name = str(settings.pop("name", "standard"))
    if parts > 1:
        if name not in _CLASS_DISJOINT:
            raise BadSpecification(
                f"The protocol '{name}' has no class-disjoint folds for trials; {', '.join(_CLASS_DISJOINT)} have. "
                "Use another protocol, or one fold and --validation."
            )
        if not 0 <= part < parts:
            raise BadSpecification(f"part is {part}; it must be 0 to {parts - 1}.")
        of_mlrc = {key: settings[key] for key in ("form", "reversed") if key in settings}
        whole = mlrc(catalog, folds=parts, **of_mlrc)[part]
    else:
        whole = create(name, catalog, **settings)[0]
        if not len(whole.validation):  # neither the data nor the protocol defines validation classes
            if not validation:
                raise BadSpecification("The protocol 'choosing' needs `validation`: a share of the training classes.")
            whole = create(name, catalog, validation=validation, **settings)[0]
    if not len(whole.validation):
        raise BadInput(f"The protocol '{name}' leaves no class of '{catalog.name}' for validation, which trials need.")
    return [Fold("choosing", whole.train, whole.validation, whole.validation, closed=whole.closed, trial=True)]
