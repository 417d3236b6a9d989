"""A study for the user's photos: losses with default settings, and conditions fitted to the data."""

from __future__ import annotations

import copy
import os
from collections.abc import Set
from pathlib import Path
from typing import Any

import numpy as np

from levelfield import library, methods
from levelfield.batching import Layout, fit_batch
from levelfield.data import create, official, survey
from levelfield.data.checks.readable import check_images
from levelfield.progress import SILENT, Progress
from levelfield.studies.planning.own_backbones import VARIED, fit_networks
from levelfield.studies.planning.stopping import choose_stopping
from levelfield.studies.runs.inputs import check_trunk
from levelfield.studies.specification.choices import ProtocolChoice
from levelfield.studies.specification.study import Study, parse_study
from levelfield.training import Conditions

DRAWINGS = 96  # pixels; images with a smaller shorter side are treated as small drawings, as in the demo
SMALL: dict[str, Any] = {"image": 64, "taps": ["blocks.3", "blocks.4", "blocks.5"], "pooling": "grid"}


def fit_to(
    path: Path,
    *,
    root: Path | None = None,
    skip_unreadable: bool = False,
    wished: Study | None = None,
    fixed: Set[str] = frozenset(),
    trial_share: float = 0.0,
    content: dict[str, Any] | None = None,
    progress: Progress = SILENT,
) -> tuple[dict[str, Any], list[str], int]:
    """A study for the photos under `path`, and sentences on what was found and chosen.

    root: root folder, if `path` names a benchmark. wished: the user's study; its keys in `fixed` are not changed.
    trial_share: share of the training classes that trials of settings hold back. content: the study before fitting, by
    default six losses. progress: progress of the images that are checked for the first time.
    """
    content = copy.deepcopy(content) if content else photos_content()
    wished = wished or parse_study(content)
    networks = VARIED in content.get("vary", {})
    if networks:  # which name their stages differently; the study has its own patience
        fixed = {*fixed, VARIED, "conditions.validate_every", "conditions.patience"}
    settings: dict[str, Any] = {"root": str(root)} if root is not None else {}
    settings |= {"allow_incomplete": True} if wished.data.settings.get("allow_incomplete") else {}
    catalog = create(str(path) if str(path) in official.names() else path, **settings)
    catalog = check_images(catalog, skip_unreadable=skip_unreadable, progress=progress)
    settings |= {"skip_unreadable": True} if skip_unreadable else {}
    content |= {"name": _study_name(path), "data": {"name": str(path), **settings}}
    compared = f"{len(content['vary'][VARIED])} networks" if networks else "Six losses with their default settings"
    content["about"] = f"{compared} on {path}."
    facts = survey(catalog)
    changes = [f"{path}: {facts}.", *catalog.notes]
    conditions = content["conditions"]
    if facts.shorter_side is not None:
        changes += _fit_view(conditions, facts.shorter_side[1] < DRAWINGS, fixed)
    stopping = choose_stopping(catalog, wished, fixed)
    protocol = wished.protocol
    if stopping is not None:
        conditions.update(stopping.conditions)
        if stopping.protocol is not None:
            content["protocol"] = stopping.protocol
            protocol = ProtocolChoice(**stopping.protocol)
        if "select" in conditions and any(methods.trains(method.name) for method in wished.methods):
            content["figures"] = [*content.get("figures", []), "curves"]  # of the metric that selects
    fold = protocol.divide(catalog)[0]
    trains = fold.train
    if trial_share and not len(fold.validation):  # trials hold classes back, and batches must fit what is left
        trial = ProtocolChoice.model_validate(
            {"name": "choosing", "of": protocol.model_dump(), "validation": trial_share}
        )
        trains = trial.divide(catalog)[0].train
    changes += _fit_batch(conditions, catalog.labels[trains], fixed)
    changes += fit_networks(conditions, wished, fixed) if networks else _fit_dim(conditions, wished.conditions, fixed)
    parts = {"Trains on": fold.train, "validates on": fold.validation, "tests on": fold.test}
    counts = [f"{part} {_counted(catalog.labels[images])}" for part, images in parts.items() if len(images)]
    changes.append(", ".join(counts) + ".")
    side = int(facts.shorter_side[1]) if facts.shorter_side is not None else conditions["image"]
    return content, changes + ([stopping.text] if stopping is not None else []), side


def _fit_view(conditions: dict[str, Any], small: bool, fixed: Set[str]) -> list[str]:
    """Photographs use 160 px and the last features; small drawings also use earlier stages."""
    if small:
        if "conditions.backbone" not in fixed:  # other networks name their stages differently
            conditions.update({key: value for key, value in SMALL.items() if f"conditions.{key}" not in fixed})
        return []
    if {f"conditions.{key}" for key in SMALL} & fixed:
        return []
    return [
        f"Photographs: resized to {conditions['image']} px; the network's last features, averaged over the image. "
        "For larger images (slower): conditions.image=224."
    ]


def _fit_batch(conditions: dict[str, Any], labels: np.ndarray, fixed: Set[str]) -> list[str]:
    """Choose batches that the training classes can fill."""
    if "conditions.batch" in fixed:
        return []
    layout = fit_batch(labels, *Layout.parse(conditions["batch"]))
    conditions["batch"] = str(layout)
    return [layout.change] if layout.change else []


def _fit_dim(conditions: dict[str, Any], wished: Conditions, fixed: Set[str]) -> list[str]:
    """Limit the dimension to that of the features, if the user chose the network."""
    if "conditions.dim" in fixed or not {f"conditions.{key}" for key in ("backbone", "taps", "pooling")} & fixed:
        return []
    width = check_trunk(wished).width
    if width >= conditions["dim"]:
        return []
    conditions["dim"] = width
    return [f"The embedding has {width} dimensions, like the network's features."]


def _counted(labels: np.ndarray) -> str:
    return f"{len(np.unique(labels))} classes ({len(labels)} images)"


def _study_name(path: Path) -> str:
    """The folder's name, or the file's without its suffix."""
    real_path = Path(os.path.realpath(path))  # also with circular links
    return (real_path.stem if real_path.is_file() else real_path.name).lstrip(".") or "photos"


def photos_content() -> dict[str, Any]:
    """The study for the user's photos as plain data, before fitting."""
    return library.content("photos/base")
