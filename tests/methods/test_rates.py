"""Published rates: an own parameter keeps its rate when the head learns faster or slower than in the paper."""

from __future__ import annotations

from typing import Any

import pytest

from levelfield import objectives
from levelfield.methods._parameters import PublishedRate, published_rates
from levelfield.papers.presets import preset_row

RATED = [name for name in objectives.names() if objectives.describe(name).published_lr is not None]


def multipliers(name: str, settings: dict[str, Any], lr: float) -> dict[str, float]:
    return {key: rate.under(lr) for key, rate in published_rates(name, settings).items()}


def rates(name: str, preset: str | None) -> dict[str, PublishedRate]:
    return published_rates(name, {} if preset is None else {"preset": preset})


@pytest.mark.parametrize("name", RATED)
@pytest.mark.parametrize("lr", [1e-6, 3e-3])
def test_the_rate_itself_is_as_published_unless_it_would_be_below_that_of_the_head(name: str, lr: float) -> None:
    for preset in (None, *objectives.describe(name).presets):
        for rate in rates(name, preset).values():
            found, published = rate.under(lr) * lr, rate.multiplier * rate.lr
            least = min(1.0, rate.multiplier) * lr
            assert found == pytest.approx(max(published, least), rel=1e-5)


def test_what_small_studies_set_by_hand_follows_from_the_rule() -> None:
    for preset, distribution in (("cub", 33.3333), ("cars", 33.3333), ("cub/bn_inception", 16.6667)):
        found = multipliers("hist", {"preset": f"lim2022/{preset}"}, 0.003)
        assert found == {"distribution_lr_multiplier": distribution, "hgnn_lr_multiplier": 1.0}  # not below the head's
    assert multipliers("margin", {"preset": "fehervari2019"}, 0.003) == {"beta_lr_multiplier": 33.3333}  # SGD at 0.1


def test_a_multiplier_that_is_set_is_used_as_it_is() -> None:
    assert multipliers("proxy_anchor", {"proxy_lr_multiplier": 100}, 0.003) == {}
    assert multipliers("hist", {"hgnn_lr_multiplier": 10}, 0.01) == {"distribution_lr_multiplier": 1.0}
    assert multipliers("proxy_anchor", {"preset": "kim2020", "proxy_lr_multiplier": 7}, 0.003) == {}


def test_a_parameter_with_the_rate_of_the_network_keeps_it() -> None:
    for name in ("softmax", "normalized_softmax", "group_loss", "message_passing", "proxy_triplet", "triplet"):
        assert multipliers(name, {}, 0.003) == {}
    assert multipliers("soft_triple", {"preset": "roth2020"}, 0.003) == {}  # 1e-5 for both


def test_rates_published_with_a_large_eps_of_adam_give_way_to_the_default() -> None:
    assert objectives.describe("proxy_nca_pp").presets["teh2020"]["proxy_lr_multiplier"] == 1e5
    assert preset_row("proxy_nca_pp", "teh2020")["lr"] is None
    assert rates("proxy_nca_pp", "teh2020") == rates("proxy_nca_pp", None)
