"""The 2-D line experiments of roth2020 (section G, figures 6 and 12): the effect of a contrastive loss on a direction
that the training classes do not need.

Every class is a line in the plane. A small network is trained with and without the switch; statistics of its embeddings
on the circle show a collapse that plain recall, which ignores scale, does not show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from levelfield.evaluation import spectral_decay
from levelfield.labels import class_masks
from levelfield.miners.all import all_triplets
from levelfield.miners.switch import switch_triplets
from levelfield.objectives import Contrastive
from levelfield.randomness import isolated, numpy_stream, stream
from levelfield.settings import number

__all__ = ["FORMS", "Figures", "Form", "Outcome", "Setting", "draw", "figures_of", "settings", "train"]

# roth2020 G and its script, which agree
WIDTH, RATE, STEPS, BATCH, MARGIN = 30, 0.03, 200, 24, 0.1
POINTS, SAMPLED = 100, 15  # points of a line, and the number drawn from them
PUBLISHED_SWITCH = 0.001
PREFERRED_SWITCH = 0.7  # separates the vertical lines and keeps the training classes together
NOISES = 20  # draws of the noise, which models a retrieval of finite resolution


class Form(NamedTuple):
    """Four training and four test classes, each a line from (x, y) to (u, v). The direction that separates the test
    classes is useless in training."""

    train: tuple[tuple[float, float, float, float], ...]
    test: tuple[tuple[float, float, float, float], ...]


FORMS = {
    # roth2020 fig. 6: classes along the diagonal, test classes off it
    "diagonal": Form(
        tuple((a, a, b, b) for a, b in ((0.10, 0.30), (0.35, 0.55), (0.60, 0.80), (0.85, 1.05))),
        ((0.2, 0.20, 0.2, 0.40), (0.2, 0.55, 0.2, 0.85), (0.40, 0.2, 0.60, 0.2), (0.70, 0.2, 0.90, 0.2)),
    ),
    # roth2020 fig. 12: training classes differ in x, test classes only in y; the published figure has no coordinates
    "vertical": Form(
        tuple((x, 0.1, x, 0.9) for x in (0.2, 0.4, 0.6, 0.8)),
        tuple((0.5, a, 0.5, b) for a, b in ((0.05, 0.20), (0.30, 0.45), (0.55, 0.70), (0.80, 0.95))),
    ),
}


def draw(lines: tuple[tuple[float, float, float, float], ...], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Points (classes * 15, 2) and their classes.

    >>> points, labels = draw(FORMS["vertical"].train, torch.Generator().manual_seed(0))
    >>> points.shape, labels.bincount().tolist(), points[:15, 0].unique()
    (torch.Size([60, 2]), [15, 15, 15, 15], tensor([0.2000]))
    """
    points = []
    for x, y, u, v in lines:
        along = torch.linspace(0, 1, POINTS)[torch.randperm(POINTS, generator=generator)[:SAMPLED], None]
        points.append(torch.lerp(torch.tensor((x, y)), torch.tensor((u, v)), along))
    return torch.cat(points), torch.arange(len(lines)).repeat_interleave(SAMPLED)


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
    """Train once. All settings have the same points, initial network and batches for a seed."""
    lines = FORMS[form]
    points, labels = draw(lines.train, stream(seed, "toy", "train"))
    test, test_labels = draw(lines.test, stream(seed, "toy", "test"))
    with isolated(seed, "toy", "network"):
        network = nn.Sequential(nn.Linear(2, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    objective = Contrastive(neg_margin=MARGIN, miner="random", switch=setting.switch)
    batches, generator = stream(seed, "toy", "batches"), stream(seed, "toy", "tuples")
    for _ in range(STEPS):
        batch = torch.randperm(len(points), generator=batches)[:BATCH]
        tuples = None
        if setting.tuples == "all":
            triplets = all_triplets(*class_masks(labels[batch]))
            uniform = torch.rand(len(triplets), generator=generator)
            tuples = switch_triplets(triplets, triplets[:, 1], uniform, switch=setting.switch)
        rows = network(points[batch])
        if setting.pull:
            loss = objective(rows, labels[batch], tuples=tuples, generator=generator)
        else:
            loss = objective.terms(rows, labels[batch], tuples=tuples, generator=generator)["negative"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        train_rows, test_rows = (nn.functional.normalize(network(rows), dim=1) for rows in (points, test))
    return Outcome(points, labels, train_rows, test, test_labels, test_rows)


@dataclass(frozen=True)
class Figures:
    """rho and recall@1 of the training rows; range of angles (`arc`, radians) of the test rows, and their recall@1 with
    noise of 0.02 and 0.05 radians (chance: 0.24)."""

    rho: float
    arc: float
    recall_002: float
    recall_005: float
    train_recall: float


def figures_of(outcome: Outcome) -> Figures:
    """The statistics of one training."""
    train_angles, test_angles = (angles(rows.double().numpy()) for rows in (outcome.train_rows, outcome.test_rows))
    labels = outcome.test_labels.numpy()
    return Figures(
        spectral_decay(outcome.train_rows),
        float(np.ptp(test_angles)),
        noisy_recall(test_angles, labels, 0.02),
        noisy_recall(test_angles, labels, 0.05),
        recall(train_angles, outcome.train_labels.numpy()),
    )


def angles(rows: np.ndarray) -> np.ndarray:
    """Angles of rows (n, 2) around their mean direction."""
    middle = np.arctan2(*rows.mean(0)[::-1])
    return _wrapped(np.arctan2(rows[:, 1], rows[:, 0]) - middle)


def recall(angles: np.ndarray, labels: np.ndarray) -> float:
    """Share of the rows whose nearest other row on the circle is of their class.

    >>> recall(np.array([0.0, 0.1, 3.1, -3.1]), np.array([0, 0, 1, 1]))
    1.0
    """
    distance = np.abs(_wrapped(angles[:, None] - angles))
    np.fill_diagonal(distance, np.inf)
    return float((labels[distance.argmin(1)] == labels).mean())


def noisy_recall(angles: np.ndarray, labels: np.ndarray, noise: float) -> float:
    """Mean recall with normal noise on every angle."""
    draws = numpy_stream(0, "toy", "noise").normal(0, noise, size=(NOISES, len(angles)))
    return float(np.mean([recall(angles + shifts, labels) for shifts in draws]))


def _wrapped(difference: np.ndarray) -> np.ndarray:
    """Angles in [-pi, pi)."""
    return (difference + np.pi) % (2 * np.pi) - np.pi
