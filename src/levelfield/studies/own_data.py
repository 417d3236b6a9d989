"""A study for somebody's own photos: the demo's methods, with conditions fitted to what is there."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from levelfield.batching import Layout, fit_batch
from levelfield.data import create, official, seen, survey
from levelfield.studies.choices import ProtocolChoice

DRAWINGS = 96  # pixels of the shorter side below which images are taken for small drawings, as in the demo
PHOTOGRAPHS: dict[str, Any] = {"image": 160, "taps": ["final"], "pooling": "average"}


def fit_to(
    path: Path,
    *,
    root: Path | None = None,
    allow_incomplete: bool = False,
    skip_unreadable: bool = False,
    fixed: set[str] | None = None,
    protocol: ProtocolChoice | None = None,
    progress: seen.Progress | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """A study for the photos under `path` and, in sentences, what was found and changed.

    root, allow_incomplete: of the benchmark that `path` names. fixed: keys the user sets, which are left alone.
    protocol: the division, if it is not the standard one. progress: hears (done, total) of the images that are looked
    at for the first time.
    """
    given = {"root": str(root)} if root is not None else {}
    settings = given | ({"allow_incomplete": True} if allow_incomplete else {})
    catalog = create(str(path) if str(path) in official.names() else path, **settings)
    catalog = seen.look(catalog, skip_unreadable=skip_unreadable, progress=progress)
    fixed = fixed or set()
    protocol = protocol or ProtocolChoice()
    fold = protocol.divide(catalog)[0]
    content = demo_content()
    conditions = content["conditions"]
    content |= {"name": _study_name(path), "about": f"The demo's methods on {path}."}
    content["data"] = {"name": str(path), **settings}
    if skip_unreadable:
        content["data"]["skip_unreadable"] = True
    conditions["tuning_trials"] = 0  # the demo's settings were chosen on drawings; nothing was tried on these photos
    for method in content["methods"]:
        for settings in method.values():
            if isinstance(settings, dict):
                settings.pop("trials", None)
    facts = survey(catalog)
    changes = [f"{path}: {facts}.", *catalog.notes]
    if facts.shorter_side is not None and facts.shorter_side[1] >= DRAWINGS:
        fitting = {key: value for key, value in PHOTOGRAPHS.items() if f"conditions.{key}" not in fixed}
        conditions.update(fitting)
        if fitting == PHOTOGRAPHS:
            changes.append(
                f"Photographs: seen at {conditions['image']} px, the network's last features averaged over the image "
                "(the demo's small drawings keep the layout of earlier stages). Larger is slower: conditions.image=224."
            )
        elif fitting:
            changes.append("Photographs: " + ", ".join(f"{key} {value}" for key, value in fitting.items()) + ".")
    if "conditions.batch" not in fixed:
        layout = fit_batch(catalog.labels[fold.train], *Layout.parse(conditions["batch"]))
        if layout.change:
            conditions["batch"] = str(layout)
            changes.append(layout.change)
    width = len(set(catalog.labels[fold.train].tolist()))
    if len(fold.train) < conditions["dim"] + 1 and "conditions.dim" not in fixed:
        conditions["dim"] = max(2, min(conditions["dim"], len(fold.train) - 1))
        changes.append(
            f"The embedding has {conditions['dim']} dimensions: there are only {len(fold.train)} training images."
        )
    changes.append(
        f"Trains on {width} classes ({len(fold.train)} images), tests on the other "
        f"{catalog.num_classes - width} ({len(fold.test)} images)."
    )
    return content, changes


def _study_name(path: Path) -> str:
    """The folder's name, or the file's without its suffix."""
    place = path.resolve()
    return (place.stem if place.is_file() else place.name).lstrip(".") or "photos"


def demo_content() -> dict[str, Any]:
    """The embedded demo study as plain data."""
    text = resources.files("levelfield.studies").joinpath("demo.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    return content
