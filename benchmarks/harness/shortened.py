"""Overrides that make a paper's table short: few steps, small batches, a small network. Methods, protocol, views, image
sizes, metrics, figures and claims stay, and so do the stages of a run: warm-up, drops of the rate, evaluations, folds,
members, teachers and students."""

from __future__ import annotations

import json
from typing import Any

from levelfield.batch_layout import Layout
from levelfield.studies.specification.study import Study

STEPS, DROP, EVALUATED, WARM = 2, 1, 2, 1  # all steps; before the rate drops; between evaluations; of warm-up
MOST_IMAGES, MOST_CLASSES, MOST_CLUSTERS, MEMBERS = 20, 9, 8, 2
MOST_DRAWN = 16  # images of a batch without classes; the smallest fold of the sample has 18
# timm's smallest networks
SMALL = {"resnet50": "test_byobnet", "resnet18": "test_byobnet", "bninception": "test_efficientnet_gn"}


def network(study: Study, chosen: str | None) -> list[str]:
    """The network in place of the paper's, without pretrained weights. chosen: instead of the small one."""
    if chosen == "paper":
        return ["conditions.weights=random"]
    key = "conditions.backbone"
    if key in study.vary:
        changed = varied(study, {key: {name: chosen or _small(name) for name in study.vary[key]}})
    else:
        changed = [f"{key}={chosen or _small(study.conditions.backbone)}"]
    own = {one.label: one.conditions["backbone"] for one in study.methods if "backbone" in one.conditions}
    changed += [f"methods.{label}.{key}={chosen or _small(name)}" for label, name in own.items()]
    return ["conditions.weights=random", *changed]


def _small(backbone: str) -> str:
    return SMALL[backbone.partition(".")[0]]  # without the name of its weights


def varied(study: Study, instead: dict[str, dict[Any, Any]]) -> list[str]:
    """Other values of what varies; claims name their rows after the values."""
    claims = json.dumps([claim.model_dump(mode="json") for claim in study.claims])
    for key, values in instead.items():
        for old, new in values.items():
            claims = claims.replace(f"[{key.split('.')[-1]}={old}]", f"[{key.split('.')[-1]}={new}]")
    vary = {key: list(dict.fromkeys(values.values())) for key, values in instead.items()}
    return [f"vary={json.dumps(vary)}", f"claims={claims}"]


def few_values(study: Study) -> dict[str, dict[Any, Any]]:
    """Of what varies the first and the last value, and those that a claim names; for each the one to use instead.

    >>> from levelfield.studies.specification.yaml_file import read_study
    >>> few_values(read_study("fehervari2019/fig1")), few_values(read_study("fehervari2019/fig2"))
    ({'conditions.dim': {64: 64, 512: 512, 2048: 2048}}, {'conditions.batch': {2: 2, 4: 4, 32: 8, 128: 16}})
    """
    claims = " ".join(claim.claim for claim in study.claims)
    found = {}
    for key, values in study.vary.items():
        kept = [value for value in values if value in (values[0], values[-1]) or f"={value}]" in claims]
        found[key] = {value: value for value in kept}
        if key == "conditions.batch":  # each half of the next, so that they differ
            found[key] = {value: min(value, MOST_DRAWN >> place) for place, value in enumerate(reversed(kept))}
            found[key] = dict(reversed(found[key].items()))
    return found


def shortened(study: Study) -> list[str]:
    """All overrides but those of the network."""
    conditions = study.conditions
    changes: dict[str, Any] = {
        "seeds": 1 + max((max(_seeds(method.settings)) for method in study.methods), default=0),
        "conditions.steps": STEPS,
        "conditions.validate_every": EVALUATED,
        "conditions.batch": fitting(conditions.batch),
    }
    changes |= {f"conditions.{key}": WARM for key in ("warmup", "trunk_warmup") if getattr(conditions, key)}
    changes |= {"conditions.step_at": [DROP]} if conditions.step_at else {}
    changes |= {"conditions.patience": f"{STEPS} steps"} if conditions.patience else {}
    for method in study.methods:
        own = _own(method.settings) | ({"conditions.step_at": [DROP]} if "step_at" in method.conditions else {})
        changes |= {f"methods.{method.label}.{key}": value for key, value in own.items()}
    short = [f"{key}={json.dumps(value)}" for key, value in changes.items()]
    return short if not study.vary or "conditions.backbone" in study.vary else short + varied(study, few_values(study))


def fitting(batch: str) -> str:
    """A batch for a few classes, with as many images of a class as before.

    >>> fitting("56x2"), fitting("12x10"), fitting("8x4"), fitting("120"), fitting("32x1")
    ('9x2', '2x10', '5x4', '16', '9x1')
    """
    layout = Layout.parse(batch)
    if not layout.per_class:
        return str(min(layout.batch_size, MOST_DRAWN))
    classes = min(layout.batch_size // layout.per_class, MOST_CLASSES, MOST_IMAGES // layout.per_class)
    return f"{classes}x{layout.per_class}"


def _own(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of one method that must be smaller."""
    found: dict[str, Any] = {}
    if "batch" in settings:
        found["batch"] = fitting(str(settings["batch"]))
    if "members" in settings:
        found["members"] = MEMBERS
    refine = settings.get("refine")
    if isinstance(refine, dict) and "clusters" in refine:
        found["refine"] = {**refine, "clusters": MOST_CLUSTERS}
    return found


def _seeds(settings: dict[str, Any]) -> list[int]:
    """The seeds that an ensemble joins."""
    named = settings.get("seeds")
    return named if isinstance(named, list) else [0]
