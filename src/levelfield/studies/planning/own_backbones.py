"""A study of several networks on the user's photos: one dimension and one image size that fit all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from typing import Any

from levelfield import library
from levelfield.errors import BadSpecification
from levelfield.studies.runs.inputs import check_trunk
from levelfield.studies.specification.study import Study
from levelfield.training import Conditions

VARIED = "conditions.backbone"


def with_backbones(content: dict[str, Any], backbones: Sequence[str]) -> dict[str, Any]:
    """The study for photos, with the rows that tell networks apart instead of its losses, and these networks."""
    own = library.content("photos-backbones/base")
    conditions = {**content["conditions"], **own["conditions"], "backbone": backbones[0]}
    return {**content, **own, "conditions": conditions, "vary": {VARIED: list(backbones)}}


def named_backbones(text: str) -> list[str]:
    """The networks of `--backbones a,b,c`; raises for unknown and repeated ones."""
    from levelfield.embedder.trunk.backbones import describe

    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise BadSpecification(
            "--backbones is empty: name networks, e.g. --backbones tf_efficientnet_lite0,mobilenetv2."
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadSpecification(f"--backbones names '{twice}' twice.")
    for name in names:
        describe(name)
    return names


def fit_networks(conditions: dict[str, Any], wished: Study, fixed: Set[str]) -> list[str]:
    """Choose an image size that all networks accept, and a dimension that all of them have; returns sentences.

    Every network is built with its weights once, frozen and cut as the methods ask, so that what is missing is known
    before the photos are used.
    """
    names = wished.vary[VARIED]
    changes = [f"{len(names)} network{'s' * (len(names) != 1)}: {', '.join(names)}."]
    if "conditions.image" not in fixed:
        changes += _fit_image(conditions, names)
    common = wished.conditions.model_copy(update={"image": conditions["image"]})
    cuts = {method.under(common).cut for method in wished.methods}
    width = min(_width(common, name, cuts) for name in names)
    if "conditions.dim" not in fixed and width < conditions["dim"]:
        conditions["dim"] = width
        changes.append(f"The embedding has {width} dimensions, like the narrowest features.")
    return changes


def _fit_image(conditions: dict[str, Any], names: Sequence[str]) -> list[str]:
    """The next size that the patches of all networks divide."""
    from levelfield.embedder.trunk.backbones import describe

    patch = math.lcm(*(describe(name).patch for name in names))
    fitting = -(-conditions["image"] // patch) * patch
    if fitting == conditions["image"]:
        return []
    conditions["image"] = fitting
    return [f"Images are resized to {fitting} px, which the networks' patches divide."]


def _width(common: Conditions, name: str, cuts: Set[str]) -> int:
    """The width of a network's features; raises if it cannot be built or cut."""
    try:
        return min(check_trunk(common.model_copy(update={"backbone": name, "cut": cut})).width for cut in sorted(cuts))
    except BadSpecification as error:
        raise BadSpecification(f"{error} Or leave '{name}' out of --backbones.") from error
