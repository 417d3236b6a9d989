"""Groups, rates and optimisers: every parameter is in exactly one group, and the rate follows its formula."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from training_world import conditions

from levelfield.errors import BadSpecification, Unfair
from levelfield.methods import Group
from levelfield.training.optimisers import build, check_groups, factor, set_rates


def slow_factor(step, *, steps, warmup, schedule, every, by, drops):
    """What the rates are multiplied with, walked step by step."""
    if step < warmup:
        return sum(1 / warmup for _ in range(step + 1))
    if schedule == "constant":
        return 1.0
    if schedule == "cosine":
        left = steps - warmup
        return math.cos(math.pi / 2 * (step - warmup) / left) ** 2  # half-angle form of (1 + cos) / 2
    rate = 1.0
    falls = sum(1 for s in range(1, step + 1) if s % every == 0) if schedule == "step" else drops
    for _ in range(falls):
        rate *= by
    return rate


@pytest.mark.parametrize("schedule", ["constant", "step", "cosine", "plateau"])
@pytest.mark.parametrize("warmup", [0, 1, 7])
def test_factor_follows_its_definition(schedule, warmup):
    chosen = conditions(schedule=schedule, warmup=warmup, steps=23, step_every=5, step_factor=0.3, select="map@r")
    for step in range(23):
        for drops in (0, 2):
            expected = slow_factor(step, steps=23, warmup=warmup, schedule=schedule, every=5, by=0.3, drops=drops)
            assert factor(step, chosen, drops=drops) == pytest.approx(expected, abs=1e-12), (step, drops)


def test_factor_is_positive_and_at_most_one_even_if_the_warmup_is_longer_than_the_run():
    chosen = conditions(steps=5, warmup=50)
    assert [factor(step, chosen) for step in range(5)] == pytest.approx([k / 50 for k in range(1, 6)])


@pytest.fixture
def pair():
    return nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 1)})


def test_a_parameter_in_no_group_is_refused_by_name_and_shape(pair):
    with pytest.raises(Unfair, match=r"'b\.bias' \(1,\) is in no optimiser group"):
        check_groups(pair, [Group("a", list(pair["a"].parameters())), Group("b", [pair["b"].weight])])


def test_everything_that_trains_is_in_one_group(pair):
    check_groups(pair, [Group("a", list(pair["a"].parameters())), Group("b", list(pair["b"].parameters()))])
    pair["b"].requires_grad_(False)
    check_groups(pair, [Group("a", list(pair["a"].parameters()))])


def test_a_parameter_in_two_groups_or_twice_in_one_is_refused(pair):
    with pytest.raises(Unfair, match="two optimiser groups, 'all' and 'again'"):
        check_groups(pair, [Group("all", list(pair.parameters())), Group("again", [pair["a"].bias])])
    with pytest.raises(Unfair, match="two optimiser groups, 'all' and 'all'"):
        check_groups(pair, [Group("all", [*pair.parameters(), pair["a"].bias])])


def test_two_groups_of_one_name_are_refused(pair):
    groups = [Group("head", list(pair["a"].parameters())), Group("head", list(pair["b"].parameters()))]
    with pytest.raises(Unfair, match="Two optimiser groups are called 'head'"):
        check_groups(pair, groups)


def test_a_parameter_that_nobody_owns_is_refused(pair):
    hidden = nn.Parameter(torch.zeros(3, 4))
    with pytest.raises(Unfair, match=r"'secret' contains a parameter \(3, 4\).*hidden extra parameter"):
        check_groups(pair, [Group("all", list(pair.parameters())), Group("secret", [hidden])])


def test_each_group_gets_its_rate_decay_and_optimiser(pair):
    groups = [
        Group("trunk", [pair["a"].weight], lr=0.001, warm=False),
        Group("head", [pair["a"].bias]),
        Group("proxies", [pair["b"].weight], multiplier=100.0),
        Group("beta", [pair["b"].bias], weight_decay=0.0, optimiser="sgd"),
    ]
    adam, sgd = build(groups, conditions(lr=0.01, weight_decay=0.1, optimiser="adam", momentum=0.7), lr=0.02)
    assert (type(adam), type(sgd)) == (torch.optim.Adam, torch.optim.SGD)
    found = {g["name"]: (g["base_lr"], g["lr"], g["weight_decay"]) for o in (adam, sgd) for g in o.param_groups}
    assert found == {
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
