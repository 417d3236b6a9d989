"""Simulated leaderboards of equal methods, or with a better first method, with all kinds of noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

METHODS = 10
LEVELS = {0.5: "0.5", 0.95: "0.95"}
# standard deviations over seeds, common to all classes and per class, as shares of the distance of a score to 0 and 1
NOISES = {
    "none": (0.0, 0.0),
    "moderate": (0.03, 0.1),
    "dominant": (0.2, 0.1),
    "single classes": (0.0, 0.5),
    "one method noisier": (0.02, 0.1),
    "half of them noisier": (0.02, 0.1),
}
NOISIER = 10.0


@dataclass(frozen=True)
class Scenario:
    """Properties of a leaderboard: numbers of test classes and seeds, and their variation."""

    classes: int
    seeds: int
    noise: str = "moderate"
    level: float = 0.5
    shape: str = "normal"
    sizes: str = "equal"
    methods: int = METHODS
    fixed: int = 0  # number of deterministic rows, at the end
    fewer: int = 0  # seeds of the first row, if it has fewer than the others

    def factors(self) -> np.ndarray:
        """Relative noise of each method; 0 for deterministic rows."""
        noisier = {"one method noisier": 1, "half of them noisier": self.methods // 2}.get(self.noise, 0)
        row = np.arange(self.methods)
        return np.where(row >= self.methods - self.fixed, 0.0, np.where(row < noisier, NOISIER, 1.0))

    @property
    def truth(self) -> float:
        """The true score of every method: the mean of the distribution of classes."""
        return float(class_levels(self, 400_000, np.random.default_rng(0)).mean())


def draw(scenario: Scenario, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Scores [methods, seeds, classes] of one leaderboard, and the number of queries of each class.

    Every effect is symmetric and limited by the distance of the score to 0 and 1, so that all methods have the same
    mean.
    """
    one = scenario
    queries = np.full(one.classes, 6)
    if one.sizes == "unequal":
        queries = np.maximum(2, np.exp(random.normal(2.0, 0.8, one.classes))).astype(int)
    level = class_levels(one, one.classes, random)
    own = level + _room(level) * _of_methods(one, random)
    seen = random.binomial(queries, own) / queries
    whole, single = NOISES[one.noise]
    factors = one.factors()[:, None, None]
    moved = whole * factors * random.standard_normal((one.methods, one.seeds, 1))
    moved = moved + single * np.sign(factors) * random.uniform(-1, 1, (one.methods, one.seeds, one.classes))
    return seen[:, None] + _room(seen)[:, None] * np.clip(moved, -1, 1), queries


def class_levels(scenario: Scenario, count: int, random: np.random.Generator) -> np.ndarray:
    """Difficulty of classes: around 0.5 or 0.95, and normal on the logit, skewed or bimodal."""
    low = scenario.level == 0.5
    if scenario.shape == "skewed":
        return random.beta(0.5, 0.75, count) if low else random.beta(4.75, 0.25, count)
    if scenario.shape == "bimodal":
        return np.where(random.random(count) < (0.5 if low else 0.1), *((0.15, 0.85) if low else (0.59, 0.99)))
    return 1 / (1 + np.exp(-(0.0 if low else 3.6) - 1.2 * random.standard_normal(count)))


def _of_methods(scenario: Scenario, random: np.random.Generator) -> np.ndarray:
    """Interaction of method and class, beyond the effect of the class."""
    shape = (scenario.methods, scenario.classes)
    if scenario.shape == "opposite":  # half of the methods fail on few classes, the others succeed on few
        rare = np.where(random.random(shape) < 0.1, -0.9, 0.1)
        return rare * np.where(np.arange(scenario.methods) % 2, 1, -1)[:, None]
    return random.uniform(-0.3, 0.3, shape)


def _room(values: np.ndarray) -> np.ndarray:
    return np.minimum(values, 1 - values)
