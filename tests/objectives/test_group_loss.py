from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from levelfield.errors import BadInput, BadSpecification
from levelfield.objectives.group_loss import GroupLoss, draw_anchors, group_loss_terms, positive_correlation
from levelfield.randomness import stream


def sample(n: int = 9, dim: int = 5, classes: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    drawn = stream(0, "group_loss")
    rows = torch.randn(n, dim, generator=drawn, dtype=torch.float64)
    return rows, torch.arange(n) % classes, torch.randn(classes, dim, generator=drawn, dtype=torch.float64)


def test_without_iterations_it_is_cross_entropy_of_the_soft_prior() -> None:
    rows, labels, weight = sample()
    logits = rows @ weight.T
    found = group_loss_terms(rows, logits, labels, torch.tensor([2]), temperature=7.0, iterations=0)
    expected = functional.cross_entropy(logits / 7, labels, reduction="none")
    expected[2] = 0
    torch.testing.assert_close(found.group, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("level", [0.1, 1e6 + 1 / 3])
def test_a_constant_row_resembles_nobody_and_gets_no_gradient(dtype: torch.dtype, level: float) -> None:
    rows, _, _ = sample()
    rows = rows.to(dtype)
    rows[2] = level
    rows.requires_grad_()
    similarity = positive_correlation(rows)
    assert not similarity[2].any()
    assert not similarity[:, 2].any()
    (slope,) = torch.autograd.grad(similarity.sum(), rows)
    assert slope.isfinite().all()
    assert not slope[2].any()


@pytest.mark.parametrize("wanted", [0, 1, 2, 5])
def test_anchors_are_drawn_per_class_and_never_all_of_it(wanted: int) -> None:
    labels = torch.tensor([7, 2, 7, 7, 2, 9, 7, 2, 7])
    for seed in range(20):
        anchors = draw_anchors(labels, wanted, torch.Generator().manual_seed(seed))
        assert len(anchors.unique()) == len(anchors)
        for name, size in ((7, 5), (2, 3), (9, 1)):
            assert int((labels[anchors] == name).sum()) == min(wanted, size - 1)


def test_every_member_is_drawn_as_an_anchor_equally_often() -> None:
    generator = torch.Generator().manual_seed(0)
    times = torch.stack([draw_anchors(torch.zeros(4).long(), 1, generator) for _ in range(800)]).flatten().bincount()
    assert (times - 200).abs().max() < 50  # four standard deviations


def test_wrong_roles_and_settings_are_refused() -> None:
    loss = GroupLoss(num_classes=2, dim=4)
    with pytest.raises(BadInput, match="anchors"):
        loss(torch.eye(4), torch.tensor([0, 0, 1, 1]), roles={"support": [0]})
    with pytest.raises(BadSpecification, match="integer"):
        GroupLoss(num_classes=2, dim=4, iterations=0.5)  # type: ignore[arg-type]
