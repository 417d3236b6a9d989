"""Objectives by name, from a file and by preset: facts, settings, the papers' numbers."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from levelfield import miners, objectives
from levelfield.errors import BadInput, BadSpecification, LevelfieldError
from levelfield.miners import create as create_miner
from levelfield.objectives import LossInputs, Objective, ObjectiveFacts
from levelfield.objectives._contract import register
from levelfield.papers import presets as _presets
from levelfield.settings import Positive
from levelfield.testing import ordinary

MINE = """
import torch
from torch import nn

class Small(nn.Module):
    def forward(self, embeddings, labels):
        return embeddings.square().mean()

class Sized(nn.Module):
    separable = True
    def __init__(self, num_classes, *, scale=1.0):
        super().__init__()
        self.proxies = nn.Parameter(torch.ones(num_classes, 2) * scale)
    def lr_multipliers(self):
        return {"proxies": 5.0}
    def forward(self, embeddings, labels):
        return (embeddings - self.proxies[labels]).square().mean()

def number():
    return 3
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    path = tmp_path / "my_losses.py"
    path.write_text(MINE)
    return str(path)


@pytest.mark.parametrize("name", objectives.names())
def test_facts_fit_the_constructor(name: str) -> None:
    facts = objectives.describe(name)
    assert facts.name == name
    assert all((facts.paper, facts.formula, facts.equation))
    assert facts.use.endswith(".")
    assert set(facts.search) <= set(facts.sources) <= set(facts.defaults), "what is searched has a source"
    assert set(facts.miners) <= set(miners.names())
    assert bool(facts.miners) == ("miner" in facts.defaults)


@pytest.mark.parametrize("name", miners.names())
def test_facts_of_a_miner_fit_its_constructor(name: str) -> None:
    facts = miners.describe(name)
    assert facts.rule
    assert set(facts.sources) <= set(facts.defaults)


@pytest.mark.parametrize("name", objectives.names())
def test_every_miner_that_fits_works(name: str) -> None:
    rows, labels = ordinary()
    for miner in objectives.describe(name).miners:
        loss = objectives.create(name, num_classes=4, miner=miner)(rows.requires_grad_(), labels)
        assert torch.autograd.grad(loss, rows)[0].isfinite().all()


def test_a_misspelt_hyperparameter_names_the_nearest() -> None:
    with pytest.raises(BadSpecification, match=r"objective 'margin' has no setting 'bta'\. Did you mean 'beta'\?"):
        objectives.create("margin", bta=1.2)


def test_a_miner_may_be_a_name_a_name_with_settings_or_an_object() -> None:
    closest = create_miner("semihard", mode="closest", margin=0.2)
    for choice in ({"semihard": {"mode": "closest"}}, closest):
        assert objectives.create("triplet", miner=choice).miner == closest
    assert objectives.create("triplet", miner="random").miner == create_miner("random")


@pytest.mark.parametrize("miner", [3, {"random": {}, "all": {}}])
def test_a_miner_that_is_none_is_refused(miner: object) -> None:
    with pytest.raises(BadSpecification, match="'miner' is"):
        objectives.create("triplet", miner=miner)


def test_a_plain_module_from_a_file_gets_the_whole_call(mine: str) -> None:
    loss = objectives.create(f"{mine}:Small", num_classes=4, dim=8)
    rows, labels = ordinary()
    value = loss(rows.requires_grad_(), labels, generator=torch.Generator())
    assert value.item() == pytest.approx(rows.square().mean().item())
    assert list(loss.terms(rows, labels)) == ["loss"]
    assert loss.lr_multipliers() == {}
    assert not loss.separable


def test_what_a_plain_module_says_about_itself_is_passed_on(mine: str) -> None:
    loss = objectives.create(f"{mine}:Sized", num_classes=3, dim=8, scale=2.0)
    assert loss.separable
    assert loss.lr_multipliers() == {"module.proxies": 5.0}
    assert torch.equal(loss.class_vectors, torch.full((3, 2), 2.0))


def test_a_plain_module_refuses_what_it_cannot_take(mine: str) -> None:
    loss = objectives.create(f"{mine}:Small")
    with pytest.raises(BadInput, match="Small takes no tuples"):
        loss(*ordinary(), tuples=torch.zeros((0, 3), dtype=torch.int64))
    with pytest.raises(BadSpecification, match="Did you mean 'scale'"):
        objectives.create(f"{mine}:Sized", num_classes=3, scal=1)
    with pytest.raises(BadSpecification, match="needs num_classes"):
        objectives.create(f"{mine}:Sized")


def test_what_is_no_module_is_refused(mine: str) -> None:
    with pytest.raises(BadInput, match="must be a torch"):
        objectives.create(f"{mine}:number")


def test_a_name_registered_twice_is_an_error() -> None:
    with pytest.raises(LevelfieldError, match="'margin' is registered twice"):

        @register("margin", ObjectiveFacts(paper="-", formula="-"))
        class Other(Objective):
            pass


def test_a_copied_objective_goes_on_as_the_original_would() -> None:
    loss = objectives.create("triplet", miner="random")
    loss(*ordinary())
    other = copy.deepcopy(loss)
    assert loss(*ordinary()).item() == other(*ordinary()).item()


class Written(Objective):
    """A user's objective with settings as fields; a parameter may have the name of a setting of its parent."""

    num_classes: int
    scale: Positive = 2.0
    miner: miners.MinerChoice | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.weight = torch.nn.Parameter(torch.full((self.num_classes,), self.scale))

    def parts(self, inputs: LossInputs) -> dict[str, torch.Tensor]:
        return {"loss": self.weight[inputs.labels].mean()}


class Constructed(Written):
    def __init__(self, factor: float) -> None:
        super().__init__(num_classes=4, scale=factor)


class Derived(Constructed):
    unit: str = "none"  # no setting: the parent has a constructor of its own


def test_settings_are_fields_or_arguments_of_a_constructor() -> None:
    assert Written(num_classes=4)(*ordinary()).item() == 2
    assert Constructed(3.0)(*ordinary()).item() == Derived(3.0)(*ordinary()).item() == 3
    with pytest.raises(TypeError, match="num_classes"):
        Written()  # type: ignore[call-arg]
    with pytest.raises(BadSpecification, match="'scale' is 0; it must be above 0"):
        Written(num_classes=4, scale=0)
    mine = torch.nn.Identity()
    assert Written(num_classes=4, miner=mine).miner is mine


EVERY = [(name, preset) for name in objectives.names() for preset in _presets.presets(name)]


@pytest.mark.parametrize(("name", "preset"), EVERY)
def test_every_preset_makes_an_objective(name: str, preset: str) -> None:
    objective = objectives.create(name, num_classes=3, dim=8, preset=preset)
    assert isinstance(objective, objectives.Objective)


@pytest.mark.parametrize(
    ("name", "preset", "expected"),
    [
        ("contrastive", "mlrc/cars", {"pos_margin": 0.2652, "neg_margin": 0.5409, "reduction": "mean_nonzero"}),
        ("contrastive", "mlrc/cub/256", {"pos_margin": 0.2227, "neg_margin": 0.7694}),
        ("triplet", "fehervari2019", {"margin": 1.0, "squared": True, "normalize": False}),
        ("triplet", "roth2020/cub/rho", {"switch": 0.4, "squared": True}),
        ("triplet", "roth2020/cub/text", {"squared": False, "margin": 0.2}),
        ("triplet", "roth2020/cub/semihard_text", {"squared": False, "miner": {"semihard": {"margin": None}}}),
        ("margin", "roth2020/cub", {"margin": 0.2, "beta": 1.2, "beta_lr_multiplier": 50.0, "beta_per_class": True}),
        ("margin", "roth2020/cub/rho_beta06", {"beta": 0.6, "switch": 0.4, "divisor": "active_triplets"}),
        ("margin", "roth2020/cub/rho_beta06_text", {"beta": 0.6, "switch": 0.4, "divisor": "active_pairs"}),
        ("margin", "roth2020/sop/rho", {"switch": 0.15}),
        ("margin", "fehervari2019", {"beta_per_class": True, "beta_optimiser": "sgd", "beta_lr_multiplier": 1000.0}),
        ("multi_similarity", "mlrc/cub/miner", {"alpha": 17.97, "epsilon": 0.39}),
        ("histogram", "roth2020/sop", {"bins": 11}),
        ("quadruplet", "roth2020", {"margin1": 0.2, "margin2": 0.2}),  # the code's, not the text's
        ("snr", "roth2020/cars/rho", {"lam": 0.005, "switch": 0.35}),
        ("snr", "roth2020/cub/rho", {"switch": 0.3}),
        ("arcface", "mlrc/cub", {"margin": math.radians(23.22), "scale": 100.0, "proxy_lr_multiplier": 5130.0}),
        ("proxy_nca", "mlrc/cars", {"include_true": True, "proxy_init": "normal"}),
        ("normalized_softmax", "fehervari2019", {"label_smoothing": 0.1, "dropout": 0.5, "proxy_lr_multiplier": 1.0}),
        ("normalized_softmax", "roth2020", {"proxy_lr_multiplier": 1.0}),  # CUB: what holds everywhere, not SOP's own
        ("normalized_softmax", "roth2020/sop", {"proxy_lr_multiplier": 200.0}),
        ("message_passing", "seidenschwarz2021/cars", {"heads": 8, "steps": 2, "concat_steps": True}),
        ("hist", "lim2022", {"tau": 32, "alpha": 1.1, "hidden": 512, "lambda_s": 1, "hgnn_lr_multiplier": 5.0}),
        ("hist", "lim2022/sop", {"tau": 16, "alpha": 2, "distribution_lr_multiplier": 100.0}),
        ("hist", "lim2022/cars/proxies", {"variance": "fixed", "alpha": 0.9}),
        ("hist", "lim2022/cub/baseline", {"relations": "linear", "distribution_weight": 0.0, "tau": 32}),
    ],
)
def test_a_preset_has_the_papers_numbers(name: str, preset: str, expected: dict[str, Any]) -> None:
    found = _presets.presets(name)[preset]
    assert {key: found[key] for key in expected} == expected


def test_what_is_given_wins_over_the_preset() -> None:
    objective: Any = objectives.create("margin", num_classes=2, preset="roth2020/cub/beta06", margin=0.3, miner="all")
    assert (objective.margin, objective.beta.tolist(), objective.miner) == (0.3, pytest.approx([0.6, 0.6]), None)


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(
        BadSpecification,
        match=r"no preset 'roth2020/cras'. Did you mean 'roth2020/cars'\?",
    ):
        objectives.create("histogram", preset="roth2020/cras")
