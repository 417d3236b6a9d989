"""Count the cost of a study whose data or weights are not on this machine: official numbers of images, rows through
the trunk, floating-point operations, bytes. Hours are unknown, since they must be measured.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from levelfield import data
from levelfield.batching import Layout
from levelfield.data import DatasetFacts
from levelfield.embedder import BLOCK, Embedder, Head, Trunk
from levelfield.embedder.trunk import backbones
from levelfield.embedder.trunk.weights import missing
from levelfield.errors import BadSpecification
from levelfield.studies.planning.cost_measured import evaluated_images, joined_deviations, random_features
from levelfield.studies.planning.plan import plan
from levelfield.studies.runs.folder.method_file import make_method
from levelfield.studies.runs.setup import setting_of
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.study import Study
from levelfield.training.ledger import declared


@dataclass(frozen=True)
class Counted:
    """One row of the plan: the cost of all its runs. Operations are multiplications and additions."""

    label: str
    runs: int
    images: int
    rows: int
    operations: float
    bytes: int
    deviations: tuple[str, ...] = ()


def count(study: Study) -> tuple[list[PlannedRun], list[Counted]]:
    """The runs of a study and the cost of each row, without any image or pretrained weight."""
    runs = plan(study)
    first = {run.row: run for run in reversed(runs)}  # seeds, folds and members of a row cost the same
    numbers = Counter(run.row for run in runs)
    return runs, [_sum([_counted(first[row])] * number) for row, number in numbers.items()]


def total(rows: list[Counted]) -> Counted:
    """All rows together."""
    return _sum([Counted("all", 0, 0, 0, 0.0, 0), *rows])


def _sum(parts: list[Counted]) -> Counted:
    """The first one with the cost of all."""
    names = ("runs", "images", "rows", "operations", "bytes")
    return replace(parts[0], **{name: sum(getattr(part, name) for part in parts) for name in names})


def _counted(run: PlannedRun) -> Counted:
    """The cost of one run. A row through the trained part costs three forward passes: one forward, two for backward.
    Evaluations during training are included."""
    c = run.spec.conditions
    train, validation, test, classes = _official_counts(run)
    if run.spec.joined:
        joined = 4 * test * c.dim * len(run.spec.needs)
        return Counted(run.row, 1, 0, 0, 0.0, joined, tuple(joined_deviations(run)))
    method = make_method(run.spec, num_classes=classes)
    per_image_below, per_image_above, weights, width = _network_cost(
        c.backbone, c.cut, c.taps, c.pooling, c.image, c.dim
    )
    setting = setting_of(method, c, width, 0)
    if method.trains:  # with the parameters of its own head
        method.head(random_features(width, np.arange(classes)), setting)
    layout: Layout = method.layout or c.layout
    trains = method.trains and run.spec.weights_from is None
    seen = c.steps * layout.batch_size if trains else 0
    stored = c.cache and c.cut != "tuned"
    views = max(1, c.views) if c.augment != "none" or c.train_view else 1
    evaluated = evaluated_images(c, trains, train, validation, test)
    below = train * views + validation + test if stored else seen + evaluated
    operations = below * per_image_below + (3 * seen + evaluated) * per_image_above
    deviations = tuple(each.text for each in run.spec.with_deviations(declared(method, c, setting)))
    return Counted(run.row, 1, seen, seen + evaluated, operations, 4 * test * c.dim + weights, deviations)


def missing_weights(runs: list[PlannedRun]) -> list[str]:
    """A sentence for each network of these runs whose weights are not on this machine."""
    needed = dict.fromkeys((run.spec.conditions.backbone, run.spec.conditions.own_weights) for run in runs)
    return [text for network, weights in needed if (text := missing(network, weights)) is not None]


def countable(study: Study) -> bool:
    """Whether the official numbers of the study's data are known."""
    return _facts(study.data.name) is not None


def _facts(name: str) -> DatasetFacts | None:
    facts = data.describe(name) if name in data.names() else None
    return facts if isinstance(facts, DatasetFacts) and "train" in facts.parts else None


def _official_counts(run: PlannedRun) -> tuple[int, int, int, int]:
    """Official numbers of training, validation and test images of a run, and of training classes.

    A fold trains on all but its own part.
    """
    protocol, facts = run.spec.protocol, _facts(run.spec.data.name)
    if facts is None:
        raise BadSpecification(f"The size of '{run.spec.data.name}' is unknown until it has been downloaded.")
    folds = protocol.folds
    share = (folds - 1) / folds if folds > 1 else 1 - protocol.validation
    images, classes = facts.parts["train"]
    train = round(images * share)
    test = sum(count for part, (count, _) in facts.parts.items() if part != "train")
    return train, images - train, test, max(2, round(classes * train / images))


@lru_cache(maxsize=32)
def _network_cost(
    backbone: str, cut: str, taps: tuple[str, ...], pooling: str, image: int, dim: int
) -> tuple[float, float, int, int]:
    """Operations of one image below and above the cut, bytes of the network, input width of its head."""
    trunk = Trunk(backbones.create(backbone, weights="random"), cut=cut, taps=taps, pooling=pooling, image=image)
    embedder = Embedder(trunk, Head(trunk.width, dim))
    blank = torch.zeros(1, 3, image, image)
    with torch.no_grad(), FlopCounterMode(display=False) as below:
        stored = embedder.stored(blank)
    with torch.no_grad(), FlopCounterMode(display=False) as above:
        embedder(stored)
    weights = 4 * sum(parameter.numel() for parameter in embedder.parameters())
    blocks = BLOCK if cut != "tuned" else 1  # layers below the cut are computed in blocks of fixed size
    return below.get_total_flops() / blocks, float(above.get_total_flops()), weights, trunk.width
