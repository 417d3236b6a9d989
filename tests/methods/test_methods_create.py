"""Methods by name and from a file, their settings, and their facts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from levelfield import methods, objectives
from levelfield.errors import BadInput, BadSpecification, UnknownName
from levelfield.methods import Batch, Group, Method, Setting, class_of, search_ranges


def create(name, **settings):
    return methods.create(name, num_classes=4, dim=8, generator=torch.Generator().manual_seed(0), **settings)


def batch(rows, *, count=None):
    labels = torch.arange(rows) // 2
    return Batch(torch.randn(rows, 3), labels, np.arange(rows), None, 0, 0)


@pytest.mark.parametrize("name", methods.names())
def test_every_name_can_be_created_and_declares_numbers_or_words(name):
    method = create(name, **{"ensemble": {"of": ["margin", "triplet"]}}.get(name, {}))
    assert isinstance(method, Method)
    assert all(isinstance(value, int | float | str) for value in method.deviations(Setting(8, 16)).values())


def test_a_missing_setting_is_refused():
    with pytest.raises(BadSpecification, match="'ensemble' needs the setting 'of'"):
        create("ensemble")


@pytest.mark.parametrize("name", objectives.names())
def test_every_objective_is_a_method_whose_groups_hold_its_parameters_once(name):
    method = create(name)
    grouped = [id(p) for group in method.groups() for p in group.parameters]
    assert sorted(grouped) == sorted(id(p) for p in method.parameters())


def test_settings_of_the_method_and_of_the_objective_go_where_they_belong():
    method = create("triplet", margin=0.3, batch="5x4", batching="spc", lr=0.02, trials=7)
    assert (str(method.layout), method.batching, method.lr, method.trials) == ("5x4", "spc", 0.02, 7)
    assert method.objective.margin == 0.3
    said = method.deviations(Setting(8, 16))
    assert said == {"batch": "5x4", "batching": "spc", "lr": 0.02}


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("margin", "betta", "beta"),
        ("lda", "shrinkge", "shrinkage"),
        ("message_passing", "refin", "refine"),
        *(("contrastive", *words) for words in (("studnt", "student"), ("matrioshka", "matryoshka"))),
        *(("contrastive", *words) for words in (("batchng", "batching"), ("memry", "memory"))),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest_one(name, wrong, right):
    with pytest.raises(BadSpecification, match=f"'{wrong}'.*Did you mean '{right}'"):
        create(name, **{wrong: 1})


OWN = """
import torch
from torch import nn
from levelfield.methods import Method

class Loss(nn.Module):
    def __init__(self, num_classes, dim, *, scale=2.0):
        super().__init__()
        self.scale, self.seen = scale, (num_classes, dim)
        self.centres = nn.Parameter(torch.zeros(num_classes, dim))

    def forward(self, embeddings, labels):
        return self.scale * (embeddings - self.centres[labels]).square().mean()

class Own(Method):
    def __init__(self, *, dim, weight=1.0):
        super().__init__()
        self.dim, self.weight = dim, weight

class NoModule:
    pass
"""


@pytest.fixture
def own(tmp_path):
    (tmp_path / "mine.py").write_text(OWN, encoding="utf-8")
    return tmp_path / "mine.py"


def test_a_plain_loss_from_a_file_is_a_method_and_its_parameters_are_declared(own):
    method = create(f"{own}:Loss", scale=3.0)
    assert method.objective.module.seen == (4, 8)
    assert method.objective.module.scale == 3.0
    assert method.deviations(Setting(8, 16)) == {"extra_parameters": 32}
    assert [group.multiplier for group in method.groups()] == [1.0]
    terms = method.step(nn.Linear(3, 8), batch(4), torch.Generator())
    assert terms["loss"].requires_grad


def test_a_method_from_a_file_gets_what_its_constructor_asks_for(own):
    method = create(f"{own}:Own", weight=2.0)
    assert (method.dim, method.weight) == (8, 2.0)
    with pytest.raises(BadSpecification, match=r"'wieght'.*'weight'"):
        create(f"{own}:Own", wieght=2.0)


def test_a_file_a_name_or_a_kind_that_does_not_fit_is_refused(own):
    with pytest.raises(BadInput, match="does not exist"):
        create(f"{own.parent / 'none.py'}:Loss")
    with pytest.raises(UnknownName, match=r"'Los'.*'Loss'"):
        create(f"{own}:Los")
    with pytest.raises(BadInput, match=r"nn\.Module"):
        create(f"{own}:NoModule")


@pytest.mark.parametrize(
    ("decay", "beta", "proxies"), [("weights", 0.0, None), ("all", None, None), ("network", 0.0, 0.0)]
)
def test_the_conditions_say_which_own_parameters_decay_and_the_others_are_declared(decay, beta, proxies):
    for name, expected in (("margin", beta), ("proxy_anchor", proxies)):
        method = create(name)
        [group] = method.groups()
        assert group.decay_under(decay) == expected
        declared = method.deviations(Setting(8, 16, decay=decay))
        assert declared.get(f"weight_decay_of_{group.name}") == expected


def test_a_boundary_may_have_an_optimiser_of_its_own_and_it_is_declared():
    method = create("margin", preset="fehervari2019")
    [beta] = method.groups()
    assert (beta.optimiser, beta.parameters[0].shape) == ("sgd", (4,))
    assert method.deviations(Setting(8, 16))["optimiser_of_beta"] == "sgd"
    branches = create("drml", objective="margin", settings={"preset": "fehervari2019"}).groups()
    assert {group.name: group.optimiser for group in branches} == {"beta": "sgd", "branch_beta": "sgd"}


def test_rates_inside_a_sub_network_give_groups_with_names_of_their_own():
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))

        def lr_multipliers(self):
            return {"net.0.weight": 5.0}

    groups = {group.name: (group.multiplier, len(group.parameters)) for group in Method(Loss()).groups()}
    assert groups == {"net_at_5": (5.0, 1), "net_at_1": (1.0, 1), "net_biases_and_gains": (1.0, 2)}


def test_groups_of_any_kind_are_declared_without_a_word_of_the_method():
    class Groups(Method):
        def groups(self):
            weight = nn.Parameter(torch.zeros(2, 3))
            return [Group("w", [weight], multiplier=4.0, weight_decay=0.1, optimiser="sgd")]

    said = Groups().deviations(Setting(8, 16))
    assert said == {"lr_of_w": 4.0, "weight_decay_of_w": 0.1, "optimiser_of_w": "sgd", "extra_parameters": 6}


def test_several_centres_of_a_class_start_around_its_mean_and_unlike_each_other():
    method = methods.create("soft_triple", num_classes=4, dim=3, centers_per_class=2)
    means = torch.eye(4, 3) * 5 + 1
    method.start_proxies(means)
    away = (method.proxies.detach() - means.repeat_interleave(2, 0)).norm(dim=1)
    torch.testing.assert_close(away, means.norm(dim=1).repeat_interleave(2) / 10)
    assert not torch.equal(method.proxies[0], method.proxies[1])
    with pytest.raises(BadSpecification, match="proxies: random"):
        method.start_proxies(torch.ones(3, 3))


def test_proxies_start_at_the_class_means_only_where_there_is_one_per_class():
    means = torch.arange(32.0).reshape(4, 8)
    anchored = create("proxy_anchor")
    anchored.start_proxies(means)
    assert torch.equal(anchored.proxies, means)
    assert anchored.proxies.requires_grad
    assert create("triplet").proxies is None
    assert Method(nn.Linear(3, 4)).proxies is None


def test_search_ranges_and_seeds_are_known_by_name():
    assert search_ranges("lda") == {"shrinkage": (0.05, 0.9, "linear")}
    assert search_ranges("margin") == dict(objectives.describe("margin").search)
    assert not any(class_of(name).seeded for name in ("lda", "untrained", "whitened"))
    assert all(class_of(name).seeded for name in ("start", "random_projection", "margin"))
