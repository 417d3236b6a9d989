"""Witness 3: laws for the whole registry, so that they cover every new objective."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError

from levelfield import objectives
from levelfield.objectives import Objective, proxy_anchor
from levelfield.testing import (
    CLASSES,
    DIM,
    LAWS,
    Factory,
    Law,
    LawBroken,
    applicable,
    broken_laws,
    check_objective,
    verdicts,
)

SIZES = {"num_classes": CLASSES, "dim": DIM}
VARIANTS = {
    "margin per class": ("margin", {"beta_per_class": True, "divisor": "active_triplets"}),
    "margin of all": ("margin", {"miner": "all", "nu": 0.1}),
    "margin of all, per class": (
        "margin",
        {"miner": "all", "beta_per_class": True, "divisor": "active_triplets", "nu": 0.1, "nu_reduction": "sum"},
    ),
    "quadruplet of all": ("quadruplet", {"miner": "all"}),
    "snr of all": ("snr", {"miner": "all", "reg_over": "anchors"}),
    "snr of all, mean": ("snr", {"miner": "all", "reduction": "mean"}),
    "snr of all pairs": ("snr", {"miner": "all", "form": "contrastive", "reduction": "mean"}),
    "triplet of all": ("triplet", {"miner": "all"}),
    "triplet of all, softplus, swapped": ("triplet", {"miner": "all", "smooth": True, "swap": True}),
    "triplet raw squared": ("triplet", {"normalize": False, "squared": True, "margin": 30.0}),
    "triplet of semihard ones": ("triplet", {"miner": {"semihard": {"mode": "all", "margin": None}}, "margin": 0.4}),
    "triplet switched": ("triplet", {"miner": {"distance_weighted": {"switch": 0.4}}}),
    "contrastive of all": ("contrastive", {"miner": "all", "reduction": "mean_nonzero"}),
    "contrastive of all, raw": ("contrastive", {"miner": "all", "normalize": False}),
    "multi_similarity unmined": ("multi_similarity", {"epsilon": None, "reduction": "valid"}),
    "hist of proxies, positives only": ("hist", {"variance": "fixed", "incidence": "positives", "hidden": 6}),
    "hist by attention": ("hist", {"relations": "attention", "hidden": 6}),
    "hist, linear": ("hist", {"relations": "linear", "distribution_weight": 0.0}),
    "smoothed softmax": ("normalized_softmax", {"label_smoothing": 0.1}),
    "softmax without bias, smoothed": ("softmax", {"use_bias": False, "label_smoothing": 0.1, "temperature": 0.2}),
    "arcface plain": ("arcface", {"beyond_pi": "plain", "margin": 1.0}),
    "proxy_nca included, smoothed": ("proxy_nca", {"include_true": True, "label_smoothing": 0.1}),
    "proxy_triplet active": ("proxy_triplet", {"reduction": "active"}),
    "proxy_triplet of distances": ("proxy_triplet", {"squared": False, "reduction": "mean"}),
    "soft_triple, 1 centre": ("soft_triple", {"centers_per_class": 1, "la": 8.0}),
    "soft_triple, 2 centres": ("soft_triple", {"centers_per_class": 2, "la": 8.0}),
    "angular of all": ("angular", {"form": "all"}),
    "angular of all, angles alone": ("angular", {"form": "all", "npair_weight": 0.0}),
    "angular of all, raw": ("angular", {"form": "all", "normalize": False, "alpha": 20.0, "nu_power": 1}),
    "angular of pairs": ("angular", {"form": "pairs", "symmetric": True}),
    "n_pair of all": ("n_pair", {"form": "all", "nu_power": 1}),
    "n_pair sampled from all": ("n_pair", {"miner": "all", "nu": 0.1}),
    "n_pair of unit rows": ("n_pair", {"normalize": True}),
    "n_pair of pairs": ("n_pair", {"form": "pairs", "symmetric": True, "equal_class": "soft_target"}),
    "generalized_lifted by length": ("generalized_lifted", {"nu_power": 1, "nu": 0.1}),
    "lifted_structure of unit rows": ("lifted_structure", {"normalize": True}),
    "nt_xent of raw rows": ("nt_xent", {"normalize": False, "temperature": 2.0}),
    "fast_ap, 4 bins": ("fast_ap", {"bins": 4}),
    "histogram, 11 bins": ("histogram", {"bins": 11}),
    "quadruplet squared, switched": ("quadruplet", {"squared": True, "miner": {"distance_weighted": {"switch": 0.4}}}),
    "quadruplet raw": ("quadruplet", {"normalize": False, "miner": "random"}),
    "ranked_list of fehervari2019": ("ranked_list", {"weight_grad": True, "reduction": "mean_nonzero"}),
    "ranked_list, convex": (
        "ranked_list",
        {"combine": "convex", "lam": 0.3, "temperature": 3.0, "temperature_pos": 2.0, "weight_grad": True},
    ),
    "snr of pairs": ("snr", {"form": "contrastive", "reduction": "mean"}),
    "snr of all raw pairs": ("snr", {"form": "contrastive", "miner": "all", "normalize": False}),
    "snr raw": ("snr", {"normalize": False, "reg_over": "anchors", "miner": "random", "margin": 1.0}),
    "snr uncentred, switched": ("snr", {"centered": False, "miner": {"distance_weighted": {"switch": 0.4}}}),
    "prototypical, unsquared": ("prototypical", {"squared": False, "normalize": True}),
    "group_loss without anchors": (
        "group_loss",
        {"anchors_per_class": 0, "iterations": 3, "temperature": 1.5, "zero_diagonal": True},
    ),
    "structured_clustering raw": (
        "structured_clustering",
        {"inference": "greedy", "normalize": False, "nmi": "arithmetic", "gamma": 3.0},
    ),
    "message_passing as released": ("message_passing", {"null_logit": True, "input_projection": True, "dropout": 0.0}),
    "message_passing, two steps": (
        "message_passing",
        {"steps": 2, "heads": 2, "concat_steps": True, "skip": False, "dropout": 0.0},
    ),
    "message_passing, eq. 4 alone": ("message_passing", {"output_projection": False, "ff_factor": 0, "dropout": 0.0}),
    "message_passing masked": ("message_passing", {"masked": True, "dropout": 0.0}),
} | {name: (name, {}) for name in objectives.names()}


EXCUSED = {  # beyond the tags of the objective: which pair of a class comes first is a matter of order
    ("angular of pairs", "order_of_the_batch_is_irrelevant"),
    ("n_pair of pairs", "order_of_the_batch_is_irrelevant"),
}


def factory_of(variant: str) -> Factory:
    name, settings = VARIANTS[variant]
    return lambda **extra: objectives.create(name, **SIZES, **{**settings, **extra})


@contextmanager
def closed_forms_with_few_classes() -> Iterator[None]:
    """The laws' batches have few classes, with which the closed form of proxy anchor is not used."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proxy_anchor, "MANY", 0)
        yield


with closed_forms_with_few_classes():
    CASES = [
        pytest.param(variant, law, id=f"{variant}-{law.__name__}")
        for variant in VARIANTS
        for law in applicable(factory_of(variant))
        if (variant, law.__name__) not in EXCUSED
    ]


@pytest.mark.parametrize(("variant", "law"), CASES)
def test_objective_obeys(variant: str, law: Law) -> None:
    with closed_forms_with_few_classes():
        law(factory_of(variant))


TAGS = [(name, law) for name in objectives.names() for law in objectives.describe(name).tags]


@pytest.mark.parametrize(("name", "tag"), TAGS)
def test_an_objective_is_excused_only_from_a_law_that_it_breaks_and_says_why(name: str, tag: str) -> None:
    laws = {law.__name__: law for law in LAWS}
    assert " " in objectives.describe(name).tags[tag], "a reason in words"
    with pytest.raises((AssertionError, GradcheckError)):
        laws[tag](partial(objectives.create, name, **SIZES))


def test_laws_of_closed_forms_apply_wherever_there_is_one() -> None:
    closed = {
        name for name in objectives.names() if type(objectives.create(name, **SIZES)).quick is not Objective.quick
    }
    tested = {VARIANTS[case.values[0]][0] for case in CASES if case.values[1].__name__.startswith("closed_form")}
    assert closed == tested
    assert closed


class Honest(nn.Module):
    """A stranger's loss that is right."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        same = labels[:, None] == labels[None, :]
        return torch.where(same, 1 - embeddings @ embeddings.T, embeddings @ embeddings.T).tanh().sum() / 100


class NanOnZeros(nn.Module):
    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return (embeddings / embeddings.norm(dim=1, keepdim=True)).sum()


class FloatLabels(nn.Module):
    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        same = labels.float()[:, None] == labels.float()[None, :]
        return (embeddings @ embeddings.T * same).tanh().sum()


class Noisy(nn.Module):
    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return (embeddings * torch.rand(1, dtype=embeddings.dtype)).sum()


class Skips(nn.Module):
    """Leaves rows out that are no numbers, which looks robust and hides a fault."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return embeddings[embeddings.isfinite().all(1)].square().sum()


class Weighted(nn.Module):
    def __init__(self, power: int = 1) -> None:
        super().__init__()
        self.power = power

    def forward(self, embeddings: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        terms = embeddings.square().sum(1)
        return (terms if weights is None else terms * weights**self.power).sum()


class Forgets(nn.Module):
    """Its margin grows with every call and is in no state."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        self.calls += 1
        return embeddings.square().sum() * self.calls


class Writes(nn.Module):
    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        embeddings.data.mul_(0.5)
        return embeddings.square().sum()


def test_a_right_loss_of_a_stranger_passes() -> None:
    check_objective(Honest)


@pytest.mark.parametrize(
    ("loss", "law"),
    [
        (NanOnZeros, "degenerate_batches_are_finite"),
        (FloatLabels, "labels_above_2_to_24_stay_apart"),
        (Noisy, "no_global_random_number_is_drawn"),
        (Writes, "inputs_are_not_written_to"),
        (Skips, "a_row_that_is_not_a_number_is_not_hidden"),
        (partial(Weighted, 2), "loss_is_linear_in_the_weights"),
        (Forgets, "state_survives_save_and_load"),
    ],
)
def test_each_fault_is_found_by_its_law(loss: Factory, law: str) -> None:
    assert law in broken_laws(loss)


def test_a_law_with_nothing_to_look_at_does_not_apply_and_says_why() -> None:
    apart = {verdict.law: verdict.seen for verdict in verdicts(Honest) if verdict.holds is None}
    assert apart == {
        "terms_add_up_to_the_loss": "the loss has one term",
        "closed_form_is_the_definition": "it has no closed form beside its definition",
        "loss_is_linear_in_the_weights": "it takes no weights",
        "a_separable_loss_is_the_mean_of_its_parts": ("it is not declared as a mean over independent samples"),
        "learning_rates_name_own_parameters": "it has no parameters",
    }
    assert {v.law: v.holds for v in verdicts(Weighted)}["loss_is_linear_in_the_weights"]
    of_proxies = verdicts(lambda: objectives.create("proxy_anchor", **SIZES))
    assert {v.law for v in of_proxies if v.holds is None} == {
        "labels_above_2_to_24_stay_apart",
        "closed_form_is_the_definition",
        "loss_is_linear_in_the_weights",
        "a_separable_loss_is_the_mean_of_its_parts",
    }


def test_the_message_names_law_and_batch() -> None:
    with pytest.raises(LawBroken, match="degenerate_batches_are_finite: batch 'zero rows'"):
        check_objective(NanOnZeros)
