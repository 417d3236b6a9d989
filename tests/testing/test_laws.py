"""Witness 3: laws, walked over the registry, so that a new objective is under all of them at once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from levelfield import objectives
from levelfield.testing import CLASSES, DIM, LAWS, Law, LawBroken, broken_laws, check_objective

VARIANTS = {
    "margin per class": ("margin", {"beta_per_class": True, "divisor": "active_triplets"}),
    "triplet of all, softplus, swapped": ("triplet", {"miner": "all", "smooth": True, "swap": True}),
    "triplet raw squared": ("triplet", {"normalize": False, "squared": True, "margin": 30.0}),
    "triplet of semihard ones": ("triplet", {"miner": {"semihard": {"mode": "all", "margin": None}}, "margin": 0.4}),
    "triplet switched": ("triplet", {"miner": {"distance_weighted": {"switch": 0.4}}}),
    "contrastive of all, raw": ("contrastive", {"miner": "all", "normalize": False}),
    "multi_similarity unmined": ("multi_similarity", {"epsilon": None, "reduction": "valid"}),
    "smoothed softmax": ("normalized_softmax", {"label_smoothing": 0.1}),
} | {name: (name, {}) for name in objectives.names()}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_objective_obeys(variant: str, law: Law) -> None:
    name, settings = VARIANTS[variant]
    if law.__name__ not in objectives.describe(name).tags:
        law(lambda **extra: objectives.create(name, num_classes=CLASSES, dim=DIM, **{**settings, **extra}))


def test_no_objective_is_excused_from_a_law_but_by_its_own_definition() -> None:
    excused = {(name, law) for name in objectives.names() for law in objectives.describe(name).tags}
    assert excused <= {
        ("ranked_list", "gradient_is_the_derivative"),  # its weights are constants for the gradient
        ("prototypical", "order_of_the_batch_is_irrelevant"),  # without roles, the place in the batch gives them
        ("group_loss", "order_of_the_batch_is_irrelevant"),  # so it does for the anchors that are drawn
    }


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
    ],
)
def test_each_fault_is_found_by_its_law(loss: type[nn.Module], law: str) -> None:
    assert law in broken_laws(loss)


def test_the_message_names_law_and_batch() -> None:
    with pytest.raises(LawBroken, match="degenerate_batches_are_finite: batch 'zero rows'"):
        check_objective(NanOnZeros)
