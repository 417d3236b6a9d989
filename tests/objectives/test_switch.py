"""The setting `switch` of an objective: roth2020's presets, gradients of switched tuples, and their share."""

from __future__ import annotations

import pytest
import torch

from levelfield import objectives
from levelfield.errors import BadSpecification
from levelfield.randomness import stream

# released run scripts of roth2020: CUB, CARS, SOP
PUBLISHED = {
    ("contrastive", "rho"): (0.40, 0.35, 0.15),
    ("margin", "rho_beta06"): (0.40, 0.35, 0.15),
    ("margin", "rho"): (0.35, 0.35, 0.15),
    ("triplet", "rho"): (0.40, 0.35, 0.15),
    ("snr", "rho"): (0.30, 0.35, 0.15),
}
RANKING = ("contrastive", "margin", "triplet", "snr")


@pytest.mark.parametrize(("name", "variant"), PUBLISHED)
def test_presets_have_the_values_of_the_released_scripts(name: str, variant: str) -> None:
    found = [
        objectives.create(name, preset=f"roth2020/{place}/{variant}", num_classes=2).miner.switch
        for place in ("cub", "cars", "sop")
    ]
    assert tuple(found) == PUBLISHED[name, variant]


@pytest.mark.parametrize("name", RANKING)
def test_switched_tuples_have_a_finite_gradient_and_are_counted(name: str) -> None:
    rows = torch.randn(12, 6, generator=stream(0, "rows"), requires_grad=True)
    labels = torch.arange(12) // 3
    objective = objectives.create(name, miner="random", switch=1.0)
    loss = objective(rows, labels, generator=stream(0, "miner"))
    (gradient,) = torch.autograd.grad(loss, rows)
    assert gradient.isfinite().all()
    assert objective.switched == 1


def test_the_share_of_switched_tuples_is_near_its_chance() -> None:
    rows, labels = torch.randn(600, 4, generator=stream(0, "rows")), torch.arange(600) // 3
    objective = objectives.create("contrastive", switch=0.4)
    assert objective.switched is None
    objective(rows, labels, generator=stream(0, "miner"))
    assert 0.32 < float(objective.switched) < 0.48


def test_contrastive_pushes_a_switched_pair_and_pulls_nothing() -> None:
    """(a, a, p): the positive distance is 0, what is left is [margin - d(a, p)]+."""
    rows = torch.tensor([[1.0, 0.0], [0.8, 0.6]])
    terms = objectives.create("contrastive").terms(rows, torch.tensor([0, 0]), tuples=torch.tensor([[0, 0, 1]]))
    assert terms["positive"] == 0
    assert terms["negative"].item() == pytest.approx(1 - 0.4**0.5, abs=1e-6)


@pytest.mark.parametrize("switch", [-0.1, 1.1, "often"])
def test_a_chance_that_is_none_is_refused(switch: object) -> None:
    with pytest.raises(BadSpecification, match="switch"):
        objectives.create("triplet", switch=switch)
