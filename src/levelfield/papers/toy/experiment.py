"""The experiment: a small network trained with the contrastive loss, with and without the switch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from levelfield.labels import class_masks
from levelfield.miners.all import all_triplets
from levelfield.miners.switch import switch_triplets
from levelfield.objectives import Contrastive
from levelfield.papers.toy.lines import FORMS, draw
from levelfield.randomness import isolated, stream
from levelfield.settings import number

# roth2020 G and its script, which agree
WIDTH, RATE, STEPS, BATCH, MARGIN = 30, 0.03, 200, 24, 0.1
PUBLISHED_SWITCH = 0.001
PREFERRED_SWITCH = 0.7  # separates the vertical lines and keeps the training classes together


@dataclass(frozen=True)
class Setting:
    """One setting of the experiment. `tuples`: one triplet per anchor from the miner, or all triplets of the batch.

    pull: the released script drops the positive term whenever its switch is on (`pull=False`).
    """

    label: str
    switch: float = 0.0
    tuples: Literal["anchor", "all"] = "anchor"
    pull: bool = True

    def __post_init__(self) -> None:
        number("switch", self.switch, least=0, most=1)


def settings(switch: float = PREFERRED_SWITCH) -> list[Setting]:
    """Settings that the command compares: plain loss, published switch, preferred switch, and roth2020's script."""
    return [
        Setting("contrastive"),
        Setting(f"switch {PUBLISHED_SWITCH}", PUBLISHED_SWITCH),
        Setting(f"switch {switch:g}", switch),
        Setting("no pull (roth2020)", PUBLISHED_SWITCH, "all", pull=False),
    ]


@dataclass(frozen=True)
class Outcome:
    """Points and unit embeddings of one training, each with its classes."""

    train: Tensor
    train_labels: Tensor
    train_rows: Tensor
    test: Tensor
    test_labels: Tensor
    test_rows: Tensor


def train(form: str, setting: Setting, seed: int) -> Outcome:
    """Train once. All settings see the same points, start and batches of a seed."""
    lines = FORMS[form]
    points, labels = draw(lines.train, stream(seed, "toy", "train"))
    unseen, unseen_labels = draw(lines.test, stream(seed, "toy", "test"))
    with isolated(seed, "toy", "network"):
        network = nn.Sequential(nn.Linear(2, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    objective = Contrastive(neg_margin=MARGIN, miner="random", switch=setting.switch)
    batches, drawn = stream(seed, "toy", "batches"), stream(seed, "toy", "tuples")
    for _ in range(STEPS):
        chosen = torch.randperm(len(points), generator=batches)[:BATCH]
        tuples = _all_of(labels[chosen], setting.switch, drawn) if setting.tuples == "all" else None
        rows = network(points[chosen])
        if setting.pull:
            loss = objective(rows, labels[chosen], tuples=tuples, generator=drawn)
        else:
            loss = objective.terms(rows, labels[chosen], tuples=tuples, generator=drawn)["negative"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        train_rows, test_rows = (nn.functional.normalize(network(rows), dim=1) for rows in (points, unseen))
    return Outcome(points, labels, train_rows, unseen, unseen_labels, test_rows)


def _all_of(labels: Tensor, switch: float, generator: torch.Generator) -> Tensor:
    """All triplets of the batch; with probability `switch` the positive replaces the negative (and the anchor the
    positive)."""
    triplets = all_triplets(*class_masks(labels))
    uniform = torch.rand(len(triplets), generator=generator)
    return switch_triplets(triplets, triplets[:, 1], uniform, switch=switch)
