from __future__ import annotations

import pytest
import torch
from torch import Tensor

from levelfield.errors import BadSpecification
from levelfield.objectives import create


def by_loop(rows: Tensor, labels: Tensor, bins: int, normalize: bool = True) -> Tensor:
    """Cakir et al. 2019, anchor by anchor and node by node."""
    if normalize:
        rows = rows / rows.norm(dim=1, keepdim=True)
    delta, losses = 4 / bins, []
    for i in range(len(rows)):
        positives = [j for j in range(len(rows)) if j != i and labels[j] == labels[i]]
        others = [j for j in range(len(rows)) if j != i]
        if not positives:
            continue
        precision, running, running_all = 0.0 * rows.sum(), 0.0 * rows.sum(), 0.0 * rows.sum()
        for node in range(bins + 1):
            pulse = {j: (1 - ((rows[i] - rows[j]).square().sum() / delta - node).abs()).relu() for j in others}
            here = sum(pulse[j] for j in positives)
            running, running_all = running + here, running_all + sum(pulse.values())
            if here > 0:
                precision = precision + here * running / running_all
        losses.append(1 - precision / len(positives))
    return sum(losses, 0.0 * rows.sum()) / max(1, len(losses))


@pytest.mark.parametrize(("bins", "normalize"), [(10, True), (3, True), (10, False)])
def test_is_the_slow_loop(batch: tuple[Tensor, Tensor], bins: int, normalize: bool) -> None:
    """Raw rows lie partly beyond the last node."""
    rows, labels = batch
    rows.requires_grad_()
    found = create("fast_ap", bins=bins, normalize=normalize)(rows, labels)
    wanted = by_loop(rows, labels, bins, normalize)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    torch.testing.assert_close(*(torch.autograd.grad(value, rows)[0] for value in (found, wanted)), rtol=0, atol=1e-11)


def test_a_perfect_ranking_costs_nothing() -> None:
    rows, labels = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]]), torch.tensor([0, 0, 1, 1])
    loss = create("fast_ap")
    assert loss(rows, labels).item() == 0
    assert int(loss.active) == 0


def test_a_tie_in_one_bin_is_the_share_of_positives() -> None:
    loss = create("fast_ap")
    assert loss(torch.eye(4), torch.tensor([0, 0, 1, 1])).item() == pytest.approx(2 / 3)
    assert int(loss.active) == 4


def test_weights_belong_to_the_anchor() -> None:
    rows, labels = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), torch.tensor([0, 0, 1])
    each = [create("fast_ap")(rows, labels, weights=torch.eye(3)[i]).item() for i in range(3)]
    assert each == pytest.approx([0.25, 0.25, 0.0])  # two anchors; their positive ranks second or ties with another


def test_half_a_bin_is_refused() -> None:
    with pytest.raises(BadSpecification, match="integer"):
        create("fast_ap", bins=2.5)
