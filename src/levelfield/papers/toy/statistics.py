"""Statistics that show a collapse on a circle; plain recall ignores scale and does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levelfield.evaluation import spectral_decay
from levelfield.papers.toy.experiment import Outcome
from levelfield.randomness import numpy_stream

NOISES = 20  # draws of the noise, which models a retrieval of finite resolution


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
    trained, tested = angles(outcome.train_rows.double().numpy()), angles(outcome.test_rows.double().numpy())
    labels = outcome.test_labels.numpy()
    return Figures(
        spectral_decay(outcome.train_rows),
        arc(tested),
        noisy_recall(tested, labels, 0.02),
        noisy_recall(tested, labels, 0.05),
        recall(trained, outcome.train_labels.numpy()),
    )


def angles(rows: np.ndarray) -> np.ndarray:
    """Angles of rows (n, 2) around their mean direction."""
    middle = np.arctan2(*rows.mean(0)[::-1])
    return _wrapped(np.arctan2(rows[:, 1], rows[:, 0]) - middle)


def arc(angles: np.ndarray) -> float:
    """Range of the angles.

    >>> arc(np.array([-0.25, 0.5, 0.0]))
    0.75
    """
    return float(np.ptp(angles))


def recall(angles: np.ndarray, labels: np.ndarray) -> float:
    """Share of the rows whose nearest other row on the circle is of their class.

    >>> recall(np.array([0.0, 0.1, 3.1, -3.1]), np.array([0, 0, 1, 1]))
    1.0
    """
    apart = np.abs(_wrapped(angles[:, None] - angles))
    np.fill_diagonal(apart, np.inf)
    return float((labels[apart.argmin(1)] == labels).mean())


def noisy_recall(angles: np.ndarray, labels: np.ndarray, noise: float) -> float:
    """Mean recall with normal noise on every angle."""
    drawn = numpy_stream(0, "toy", "noise").normal(0, noise, size=(NOISES, len(angles)))
    return float(np.mean([recall(angles + one, labels) for one in drawn]))


def _wrapped(difference: np.ndarray) -> np.ndarray:
    """Angles in [-pi, pi)."""
    return (difference + np.pi) % (2 * np.pi) - np.pi
