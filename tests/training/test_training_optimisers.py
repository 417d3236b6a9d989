"""Groups, rates and optimisers: every parameter is in exactly one group, and the rate follows its formula."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from training_world import conditions

from levelfield.errors import BadSpecification, Unfair
from levelfield.methods import Group
from levelfield.training.optimisers import build, check_groups, factor, set_rates


def test_factor_is_positive_and_at_most_one_even_if_the_warmup_is_longer_than_the_run():
    chosen = conditions(steps=5, warmup=50)
    assert [factor(step, chosen) for step in range(5)] == pytest.approx([k / 50 for k in range(1, 6)])


@pytest.fixture
def pair():
    return nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 1)})


def test_everything_that_trains_is_in_one_group(pair):
    check_groups(pair, [Group("a", list(pair["a"].parameters())), Group("b", list(pair["b"].parameters()))])
    pair["b"].requires_grad_(False)
    check_groups(pair, [Group("a", list(pair["a"].parameters()))])


def test_a_parameter_in_no_group_in_two_or_of_nobody_is_refused(pair):
    a, b = (list(pair[name].parameters()) for name in "ab")
    refused = {
        r"'b\.bias' \(1,\) is in no optimiser group": [Group("a", a), Group("b", b[:1])],
        "two optimiser groups, 'all' and 'again'": [Group("all", a + b), Group("again", a[:1])],
        "two optimiser groups, 'all' and 'all'": [Group("all", a + b + a[:1])],
        "Two optimiser groups are called 'head'": [Group("head", a), Group("head", b)],
        r"'secret' contains a parameter \(3, 4\).*hidden extra parameter": [
            Group("all", a + b),
            Group("secret", [nn.Parameter(torch.zeros(3, 4))]),
        ],
    }
    for message, groups in refused.items():
        with pytest.raises(Unfair, match=message):
            check_groups(pair, groups)


def test_each_group_gets_its_rate_decay_and_optimiser(pair):
    groups = [
        Group("trunk", [pair["a"].weight], lr=0.001, warm=False),
        Group("head", [pair["a"].bias]),
        Group("proxies", [pair["b"].weight], multiplier=100.0),
        Group("beta", [pair["b"].bias], weight_decay=0.0, optimiser="sgd"),
    ]
    adam, sgd = build(groups, conditions(lr=0.01, weight_decay=0.1, optimiser="adam", momentum=0.7), lr=0.02)
    assert (type(adam), type(sgd)) == (torch.optim.Adam, torch.optim.SGD)
    result = {g["name"]: (g["base_lr"], g["lr"], g["weight_decay"]) for o in (adam, sgd) for g in o.param_groups}
    assert result == {
        "trunk": (0.001, 0.001, 0.1),
        "head": (0.02, 0.02, 0.1),
        "proxies": (2.0, 2.0, 0.1),
        "beta": (0.02, 0.02, 0.0),
    }
    assert sgd.param_groups[0]["momentum"] == 0.7
    set_rates([adam, sgd], 0.5)
    set_rates([adam, sgd], 0.25)  # always of the base rate
    assert {g["name"]: g["lr"] for o in (adam, sgd) for g in o.param_groups} == pytest.approx(
        {"trunk": 0.00025, "head": 0.005, "proxies": 0.5, "beta": 0.005}
    )


def test_an_unknown_optimiser_of_a_group_is_refused_with_the_known_ones(pair):
    with pytest.raises(BadSpecification, match=r"Unknown optimiser 'lion'.*adam, adamw, radam, rmsprop, sgd"):
        build([Group("a", list(pair.parameters()), optimiser="lion")], conditions())


@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop", "sgd", "radam"])
def test_one_step_of_every_optimiser_equals_its_plain_torch_twin(name):
    start, gradient = torch.tensor([1.0, -2.0, 3.0]), torch.tensor([0.1, -0.2, 0.3])
    ours = nn.Parameter(start.clone())
    [optimiser] = build(
        [Group("head", [ours])], conditions(optimiser=name, lr=0.1, weight_decay=0.01, momentum=0.8, eps=0.5)
    )
    theirs = nn.Parameter(start.clone())
    twin = {
        "adam": lambda: torch.optim.Adam([theirs], lr=0.1, weight_decay=0.01, eps=0.5),
        "adamw": lambda: torch.optim.AdamW([theirs], lr=0.1, weight_decay=0.01, eps=0.5),
        "rmsprop": lambda: torch.optim.RMSprop([theirs], lr=0.1, weight_decay=0.01, momentum=0.8, eps=0.5),
        "sgd": lambda: torch.optim.SGD([theirs], lr=0.1, weight_decay=0.01, momentum=0.8),
        "radam": lambda: torch.optim.RAdam([theirs], lr=0.1, weight_decay=0.01, eps=0.5, decoupled_weight_decay=True),
    }[name]()
    for _ in range(3):
        for parameter, stepper in ((ours, optimiser), (theirs, twin)):
            parameter.grad = gradient.clone()
            stepper.step()
    torch.testing.assert_close(ours, theirs)
    assert not torch.equal(ours, start)
