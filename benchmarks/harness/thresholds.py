"""Coverage of a threshold's error rates, on simulated test sets whose classes differ in their error rates."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from harness.peers import percentile_rate
from levelfield.evaluation.statistics.pair_rates import PairRate

CLASSES, RATES, SETS, BEFORE = (5, 10, 20, 50, 200), (0.2, 0.05, 0.01, 0.001), 600, 60
# variation of classes: little, strong (few classes have most errors), or a tenth of them outliers
MISSES = ("alike", "few have most", "a tenth is hard")
# false matches: classes similar to many others, single pairs of similar classes, a tenth similar to all others
MATCHES = ("hubs of every size", "alike in pairs", "a tenth are hubs")


@dataclass(frozen=True)
class RateScenario:
    """An error rate of pairs: negative (`false matches`) or positive (`false non-matches`)."""

    kind: str
    classes: int
    rate: float
    shape: str
    sizes: str

    @property
    def truth(self) -> float:
        """The true rate over all classes."""
        if self.shape not in ("hubs of every size", "a tenth are hubs"):
            return self.rate
        random = np.random.default_rng(0)
        one, other = (_hubs(self.shape, 1_000_000, random) for _ in range(2))
        return float(np.minimum(self.rate * one * other, 1).mean())


def rate_scenarios() -> list[RateScenario]:
    return [RateScenario(kind, classes, rate, shape, sizes)
            for kind, shapes in (("false matches", MATCHES), ("false non-matches", MISSES)) for classes in CLASSES
            for rate in RATES for shape in shapes for sizes in ("equal", "unequal")]  # fmt: skip


def draw_pairs(scenario: RateScenario, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Wrong and all pairs: [classes] of pairs of one class, [classes, classes] above the diagonal of pairs of two."""
    count = scenario.classes
    images = np.full(count, 6)
    if scenario.sizes == "unequal":
        images = np.maximum(2, np.exp(random.normal(2.0, 0.8, count))).astype(int)
    if scenario.kind == "false non-matches":
        pairs = images * (images - 1) // 2
        return random.binomial(pairs, _misses(scenario, random)), pairs
    pairs = np.triu(np.outer(images, images), 1)
    if scenario.shape == "alike in pairs":
        own = random.beta(2 * scenario.rate, 2 * (1 - scenario.rate), (count, count))
    else:
        hub = _hubs(scenario.shape, count, random)
        own = np.minimum(scenario.rate * np.outer(hub, hub), 1)
    return random.binomial(pairs, own), pairs


def rate_of(errors: np.ndarray, pairs: np.ndarray) -> PairRate:
    if errors.ndim == 1:
        return PairRate(errors, pairs, 1)
    return PairRate((errors + errors.T).sum(axis=0), (pairs + pairs.T).sum(axis=0), 2)


def measure_rate(scenario: RateScenario, sets: int = SETS, before: int = BEFORE) -> dict[str, Any]:
    """Coverage of the 95 % interval, and of the former percentile interval."""
    random = np.random.default_rng([len(scenario.shape), *str(scenario).encode()])
    truth, held, held_before = scenario.truth, 0, 0
    for number in range(sets):
        drawn = draw_pairs(scenario, random)
        found = rate_of(*drawn).interval(0.95)
        assert found is not None
        held += found.low <= truth <= found.high
        if number < before:
            low, high = percentile_rate(*drawn)
            held_before += low <= truth <= high
    return {**asdict(scenario), "sets": sets, "covered": held / sets, "covered_before": held_before / max(before, 1)}


def _misses(scenario: RateScenario, random: np.random.Generator) -> np.ndarray:
    rate = scenario.rate
    if scenario.shape == "a tenth is hard":
        hard = min(9 * rate, 0.95)
        return np.where(random.random(scenario.classes) < 0.1, hard, (rate - 0.1 * hard) / 0.9)
    many = 10 if scenario.shape == "alike" else 1
    return random.beta(many * rate, many * (1 - rate), scenario.classes)


def _hubs(shape: str, count: int, random: np.random.Generator) -> np.ndarray:
    """Relative frequency of confusions of a class; 1 on average."""
    return random.gamma(1.0, 1.0, count) if shape == "hubs of every size" else np.where(
        random.random(count) < 0.1, 4.0, 2 / 3)  # fmt: skip
