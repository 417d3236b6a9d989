"""Witness 3: laws for the whole registry, so that they cover every new objective."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError

from levelfield import objectives
from levelfield.objectives import Objective, proxy_anchor
from levelfield.testing import CLASSES, DIM, LAWS, Factory, Law, LawBroken, broken_laws, check_objective, verdicts

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
} | {name: (name, {}) for name in objectives.names()}


@pytest.fixture(autouse=True)
def _closed_forms_with_few_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The laws' batches have few classes, with which the closed form of proxy anchor is not used."""
    monkeypatch.setattr(proxy_anchor, "MANY", 0)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_objective_obeys(variant: str, law: Law) -> None:
    name, settings = VARIANTS[variant]
    if law.__name__ not in objectives.describe(name).tags:
        law(lambda **extra: objectives.create(name, **SIZES, **{**settings, **extra}))


TAGS = [(name, law) for name in objectives.names() for law in objectives.describe(name).tags]


@pytest.mark.parametrize(("name", "tag"), TAGS)
def test_an_objective_is_excused_only_from_a_law_that_it_breaks_and_says_why(name: str, tag: str) -> None:
    laws = {law.__name__: law for law in LAWS}
    assert " " in objectives.describe(name).tags[tag], "a reason in words"
    with pytest.raises((AssertionError, GradcheckError)):
        laws[tag](partial(objectives.create, name, **SIZES))


def test_a_law_looks_at_every_objective_unless_there_is_nothing_to_see() -> None:
    """Laws of closed forms and of terms would hold for nothing if objectives lost theirs."""
    laws = {law.__name__: law for law in LAWS}
    rows, labels = torch.randn(CLASSES * 4, DIM, generator=torch.Generator().manual_seed(0)), torch.arange(CLASSES * 4)
    closed, several = set(), set()
    for name in objectives.names():
        factory = partial(objectives.create, name, **SIZES)
        made = factory()
        closed |= {name} if type(made).quick is not Objective.quick else set()
        several |= {name} if len(made.terms(rows, labels // 4)) > 1 else set()
        of_everything = factory if made.miner is None else partial(factory, miner="all")  # mined ones are not closed
        seen = [one for one in {factory, of_everything} if laws["closed_form_is_the_definition"](one) is None]
        assert bool(seen) == (name in closed)
        assert (laws["terms_add_up_to_the_loss"](factory) is None) == (name in several)
    assert closed
    assert {"contrastive", "margin"} <= several


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
        "second_derivatives_are_those_of_the_definition": "it has no closed form beside its definition",
        "state_survives_save_and_load": "it has no state and draws no random numbers",
        "same_generator_gives_the_same_loss": "it draws no random numbers",
        "loss_is_linear_in_the_weights": "it takes no weights",
        "a_separable_loss_is_the_mean_of_its_parts": ("it is not declared as a mean over independent samples"),
        "learning_rates_name_own_parameters": "it has no parameters",
    }
    assert {v.law: v.holds for v in verdicts(Weighted)}["loss_is_linear_in_the_weights"]
    of_proxies = verdicts(lambda: objectives.create("proxy_anchor", **SIZES))
    assert {v.law for v in of_proxies if v.holds is None} == {
        "labels_above_2_to_24_stay_apart",
        "same_generator_gives_the_same_loss",
        "loss_is_linear_in_the_weights",
        "a_separable_loss_is_the_mean_of_its_parts",
    }


def test_the_message_names_law_and_batch() -> None:
    with pytest.raises(LawBroken, match="degenerate_batches_are_finite: batch 'zero rows'"):
        check_objective(NanOnZeros)
