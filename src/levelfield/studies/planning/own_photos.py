"""A study for the user's photos: losses with default settings, or several networks, under conditions that fit."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from levelfield import embedder, library, methods
from levelfield.batching import Layout, fit_batch
from levelfield.data import Catalog, check_images, create, official, survey
from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.progress import SILENT, Progress
from levelfield.studies.runs.inputs import check_trunk
from levelfield.studies.specification.choices import ProtocolChoice
from levelfield.studies.specification.study import Study, parse_study
from levelfield.training import Conditions

DRAWINGS = 96  # pixels; images with a smaller shorter side are treated as small drawings, as in the demo
SMALL: dict[str, Any] = {"image": 64, "taps": ["blocks.3", "blocks.4", "blocks.5"], "pooling": "grid"}
VARIED = "conditions.backbone"
# of the number of steps of a head on the frozen network; see docs/own-photos.md
MIN_JUDGED_CLASSES, MIN_VALIDATION_CLASSES = 8, 3  # training classes needed to hold some out; how many at least
LARGEST_SHARE = MIN_VALIDATION_CLASSES / MIN_JUDGED_CLASSES
VALIDATION_SHARE, MAX_VALIDATION_CLASSES = 0.4, 30  # of the training classes
MIN_SAMPLE_CLASSES = 100  # classes of a sample
GAIN = 0.16  # of map@r, divided by the number of validation classes: a gain on few of them may be a loss on others
FIXED_STEPS = 10  # without validation classes: little more than the warm-up, too short to overfit fewer than 8 classes
# map@r uses all images of a class, so it is less noisy than recall@1 with few validation classes
EARLY: dict[str, Any] = {"select": "map@r", "validate_every": 10, "validate_start": True, "patience": 5}


def photos_content() -> dict[str, Any]:
    """The study for the user's photos as plain data, before fitting."""
    return library.content("photos/base")


def with_backbones(content: dict[str, Any], backbones: Sequence[str]) -> dict[str, Any]:
    """The study for photos, with the rows that tell networks apart instead of its losses, and these networks."""
    own = library.content("photos-backbones/base")
    conditions = {**content["conditions"], **own["conditions"], "backbone": backbones[0]}
    return {**content, **own, "conditions": conditions, "vary": {VARIED: list(backbones)}}


def named_backbones(text: str) -> list[str]:
    """The networks of `--backbones a,b,c`; raises for unknown and repeated ones."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise BadSpecification(
            "--backbones is empty: name networks, e.g. --backbones tf_efficientnet_lite0,mobilenetv2."
        )
    for number, name in enumerate(names):
        if name in names[:number]:
            raise BadSpecification(f"--backbones names '{name}' twice.")
        embedder.backbones.describe(name)
    return names


def fit_to(
    path: Path,
    *,
    root: Path | None = None,
    skip_unreadable: bool = False,
    wished: Study | None = None,
    fixed: Set[str] = frozenset(),
    trial_share: float = 0.0,
    content: dict[str, Any] | None = None,
    most: int | None = None,
    progress: Progress = SILENT,
) -> tuple[dict[str, Any], list[str], int]:
    """A study for the photos under `path`, sentences on what was found and chosen, and the usual shorter side.

    Args:
        path: a folder, a list of images, or the name of a benchmark.
        root: root folder of a benchmark.
        skip_unreadable: leave out images that cannot be read.
        wished: the user's study.
        fixed: keys of `wished` that are not changed.
        trial_share: share of the training classes that trials of settings hold back.
        content: the study before fitting, by default six losses.
        most: images that can be used; of more, a sample of the classes is.
        progress: progress of the images that are checked for the first time.
    """
    content = copy.deepcopy(content) if content else photos_content()
    wished = wished or parse_study(content)
    networks = content.get("vary", {}).get(VARIED, [])
    if networks:  # which name their stages differently; the study has its own patience
        fixed = {*fixed, VARIED, "conditions.validate_every", "conditions.patience"}
    settings: dict[str, Any] = {"root": str(root)} if root is not None else {}
    settings |= {
        key: wished.data.settings[key] for key in ("allow_incomplete", "sample") if key in wished.data.settings
    }
    named = str(path) if str(path) in official.names() else path
    catalog = create(named, **settings)
    if most is not None and len(catalog) > most and "sample" not in settings:
        settings["sample"] = max(MIN_SAMPLE_CLASSES, catalog.num_classes * most // len(catalog))
        whole = f"data.sample={catalog.num_classes} takes all, and so much time."
        catalog = create(named, **settings).with_notes(whole)
    catalog = check_images(catalog, skip_unreadable=skip_unreadable, progress=progress)
    settings |= {"skip_unreadable": True} if skip_unreadable else {}
    content |= {"name": _study_name(path), "data": {"name": str(path), **settings}}
    compared = f"{len(networks)} networks" if networks else "Six losses with their default settings"
    content["about"] = f"{compared} on {path}."
    facts = survey(catalog)
    sentences = [f"{path}: {facts}.", *catalog.notes]
    conditions = content["conditions"]
    if facts.shorter_side is not None:
        sentences += _fit_view(conditions, facts.shorter_side[1] < DRAWINGS, fixed)
    stopping = _choose_stopping(catalog, wished, fixed)
    protocol = wished.protocol
    if stopping is not None:
        conditions.update(stopping.conditions)
        if stopping.protocol is not None:
            content["protocol"], protocol = stopping.protocol.model_dump(), stopping.protocol
        if "select" in conditions and any(methods.trains(method.name) for method in wished.methods):
            content["figures"] = [*content.get("figures", []), "curves"]  # of the metric that selects
    fold = protocol.divide(catalog)[0]
    trains = fold.train
    if trial_share and not len(fold.validation):  # trials hold classes back, and batches must fit the others
        trial = {"name": "choosing", "of": protocol.model_dump(), "validation": trial_share}
        try:
            trains = ProtocolChoice.model_validate(trial).divide(catalog)[0].train
        except LevelfieldError:  # too few can be held back: without trials all train, and trials refuse it
            trains = fold.train
    if "conditions.batch" not in fixed:
        layout = fit_batch(catalog.labels[trains], *Layout.parse(conditions["batch"]))
        conditions["batch"] = str(layout)
        sentences += [layout.change] if layout.change else []
    if networks:
        sentences += _fit_networks(conditions, wished, networks, fixed)
    elif {f"conditions.{key}" for key in ("backbone", "taps", "pooling")} & fixed:
        sentences += _fit_dim(conditions, check_trunk(wished.conditions).width, "the network's features", fixed)
    parts = {"Trains on": fold.train, "validates on": fold.validation, "tests on": fold.test}
    counts = [f"{part} {_counted(catalog.labels[images])}" for part, images in parts.items() if len(images)]
    sentences.append(", ".join(counts) + ".")
    sentences += [stopping.text] if stopping is not None else []
    return content, sentences, int(facts.shorter_side[1]) if facts.shorter_side is not None else conditions["image"]


class _Stopping(NamedTuple):
    """How runs on the user's photos stop: the reason in words, another protocol, and changed conditions."""

    text: str
    protocol: ProtocolChoice | None
    conditions: dict[str, Any]


def _choose_stopping(catalog: Catalog, wished: Study, fixed: Set[str]) -> _Stopping | None:
    """Choose the number of steps; None if the user has set it. wished: the user's study, with set keys in `fixed`."""
    if {"conditions", "conditions.select", "conditions.selection"} & fixed:
        return None
    protocol, conditions = wished.protocol, wished.conditions
    if protocol.validates:
        return _early(catalog, protocol, conditions, fixed, "the {} validation classes")
    classes = len(np.unique(catalog.labels[protocol.divide(catalog)[0].train]))
    if any(key.partition(".")[0] == "protocol" for key in fixed):
        why = "the protocol has no validation classes"
    elif classes < MIN_JUDGED_CLASSES:
        needed = f"at least {MIN_JUDGED_CLASSES} are needed"
        why = f"{classes} training classes are too few to hold some out for validation ({needed})"
    else:
        share = held_out_share(classes, VALIDATION_SHARE, MAX_VALIDATION_CLASSES)
        validating = ProtocolChoice(name=protocol.name, **protocol.settings, validation=share)
        judges = f"{{}} of the {classes} training classes, held out for validation"
        try:
            return _early(catalog, validating, conditions, fixed, judges)
        except LevelfieldError:  # one group of classes, single-image classes, or validation classes fixed by the data
            why = "none of the training classes can be held out for validation"
    chosen = _unless(fixed, {"steps": FIXED_STEPS})
    return _Stopping(f"Steps: {chosen.get('steps', conditions.steps)} for every run, because {why}.", None, chosen)


def held_out_share(classes: int, share: float, most: int) -> float:
    """The share of the training classes that is held out: about `share`, 0 if there are too few.

    >>> [held_out_share(classes, 0.2, most=20) for classes in (4, 10, 50, 1000)]
    [0.0, 0.3, 0.2, 0.02]
    """
    count = min(max(round(share * classes), MIN_VALIDATION_CLASSES), most)
    return round(count / classes, 4) if classes >= MIN_JUDGED_CLASSES else 0.0


def _early(catalog: Catalog, protocol: ProtocolChoice, wished: Conditions, fixed: Set[str], judges: str) -> _Stopping:
    """Early stopping on validation classes. With fewer of them the mean is noisier, so a step must gain more."""
    count = len(np.unique(catalog.labels[protocol.divide(catalog)[0].validation]))
    chosen = _unless(fixed, EARLY | {"min_delta": round(GAIN / count, 3)})
    conditions = wished.model_copy(update=chosen)
    text = (
        f"Steps: chosen for each run on {judges.format(count)}: {conditions.select} is evaluated at the start and "
        f"every {conditions.validate_every} steps, at most {conditions.steps}. Training stops after more than "
        f"{conditions.patience} checks without a gain of {conditions.min_delta:g}, and the best step (or the start) is "
        "kept. The test classes choose nothing."
    )
    return _Stopping(text, protocol, chosen)


def _unless(fixed: Set[str], conditions: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in conditions.items() if f"conditions.{key}" not in fixed}


def _fit_view(conditions: dict[str, Any], small: bool, fixed: Set[str]) -> list[str]:
    """Photographs use 160 px and the last features; small drawings also use earlier stages."""
    if small:
        if VARIED not in fixed:  # other networks name their stages differently
            conditions.update(_unless(fixed, SMALL))
        return []
    if {f"conditions.{key}" for key in SMALL} & fixed:
        return []
    return [
        f"Photographs: resized to {conditions['image']} px; the network's last features, averaged over the image. "
        "For larger images (slower): conditions.image=224."
    ]


def _fit_networks(conditions: dict[str, Any], wished: Study, names: Sequence[str], fixed: Set[str]) -> list[str]:
    """Choose an image size that all networks accept, and a dimension that all of them have.

    Every network is built with its weights once, frozen and cut as the methods ask, so that a missing file is an error
    before the photos are used.
    """
    sentences = [f"{len(names)} network{'s' * (len(names) != 1)}: {', '.join(names)}."]
    patch = math.lcm(*(embedder.backbones.describe(name).patch for name in names))
    fitting = -(-conditions["image"] // patch) * patch
    if "conditions.image" not in fixed and fitting != conditions["image"]:
        conditions["image"] = fitting
        sentences.append(f"Images are resized to {fitting} px, which the networks' patches divide.")
    common = wished.conditions.model_copy(update={"image": conditions["image"]})
    cuts = sorted({method.under(common).cut for method in wished.methods})
    widths = []
    for each in [common.model_copy(update={"backbone": name, "cut": cut}) for name in names for cut in cuts]:
        try:
            widths.append(check_trunk(each).width)
        except BadSpecification as error:
            raise BadSpecification(f"{error} Or leave '{each.backbone}' out of --backbones.") from error
    return sentences + _fit_dim(conditions, min(widths), "the narrowest features", fixed)


def _fit_dim(conditions: dict[str, Any], width: int, features: str, fixed: Set[str]) -> list[str]:
    """Limit the dimension to that of the features."""
    if "conditions.dim" in fixed or width >= conditions["dim"]:
        return []
    conditions["dim"] = width
    return [f"The embedding has {width} dimensions, like {features}."]


def _counted(labels: np.ndarray) -> str:
    return f"{len(np.unique(labels))} classes ({len(labels)} images)"


def _study_name(path: Path) -> str:
    """The folder's name, or the file's without its suffix."""
    real_path = Path(os.path.realpath(path))  # also with circular links
    return (real_path.stem if real_path.is_file() else real_path.name).lstrip(".") or "photos"
