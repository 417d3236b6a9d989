"""Learning rates of own parameters if the head's rate differs from the one they were published with.

An optimiser such as Adam moves a number by about its learning rate in a step. How far a proxy or a boundary should move
depends on its own scale, not on the rate of the network, so papers give such parameters a rate of their own. Presets
and defaults express it as a multiple of the paper's rate: x100 for proxies beside 1e-4. With `rates: published` a
parameter keeps the rate itself, 1e-2:

    multiplier = max(published multiplier * published rate / rate of the study's head, least)
    least = 1, or the published multiplier if that is smaller

- A published multiplier of 1 says that the parameter has the rate of the network. It stays 1.
- `least`: a parameter that is published to learn faster than the network never learns more slowly than the head.
  Studies with a fast head take few steps: at its published rate, 5e-4, margin's beta moves by at most 0.15 in 300.
- A multiplier that the study file sets is used as it is.
- Some papers set Adam's eps to 1, with rates such as 400. These are not comparable; the defaults are used instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from levelfield import objectives
from levelfield.papers.presets import preset_lr, preset_settings

LEAST = 1.0  # see above


@dataclass(frozen=True)
class PublishedRate:
    """The rate of a group of parameters: a multiple of `lr`, the rate of the head."""

    multiplier: float
    lr: float

    def under(self, lr: float) -> float:
        """The multiplier beside a head that learns at `lr`.

        >>> PublishedRate(100, 1e-4).under(0.005), PublishedRate(50, 1e-5).under(1e-5), PublishedRate(50, 1e-5).under(1)
        (2.0, 50.0, 1.0)
        """
        kept = self.multiplier * self.lr / lr
        return float(f"{max(kept, min(LEAST, self.multiplier)):.6g}")

    @property
    def text(self) -> str:
        return f"x{self.multiplier:g} of {self.lr:g} as published"


def published_rates(objective: str, settings: Mapping[str, Any]) -> dict[str, PublishedRate]:
    """Published rates by the name of their multiplier, of those that a preset or the defaults set.

    >>> published_rates("proxy_anchor", {}), published_rates("proxy_anchor", {"proxy_lr_multiplier": 2})
    ({'proxy_lr_multiplier': PublishedRate(multiplier=100.0, lr=0.0001)}, {})
    """
    if objective not in objectives.names():
        return {}
    facts, preset = objectives.describe(objective), settings.get("preset")
    given = {} if preset is None else preset_settings(objective, preset)
    preset_rate = None if preset is None else preset_lr(objective, preset)
    found = {}
    for name, usual in facts.defaults.items():
        if not name.endswith("_lr_multiplier") or name in settings:
            continue
        of_preset = name in given and (preset_rate is not None or given[name] == 1)
        multiplier, lr = (given[name], preset_rate) if of_preset else (usual, facts.published_lr)
        if lr is not None and multiplier != 1:
            found[name] = PublishedRate(float(multiplier), lr)
    return found


def multipliers(objective: str, settings: Mapping[str, Any], lr: float) -> dict[str, float]:
    """The multipliers of `published_rates` beside a head that learns at `lr`.

    >>> multipliers("margin", {"beta": 0.6}, 1e-4)
    {'beta_lr_multiplier': 5.0}
    """
    return {name: rate.under(lr) for name, rate in published_rates(objective, settings).items()}
