"""Losses of triplets, lists and quadruplets beyond the golden cases; weights and refusals of all losses of tuples."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from levelfield.errors import BadInput, BadSpecification
from levelfield.miners import create as create_miner
from levelfield.objectives import Margin, Triplet, create
from levelfield.objectives.quadruplet import draw_fourth
from levelfield.randomness import stream

LISTED: list[tuple[str, dict[str, Any]]] = [
    ("triplet", {"swap": True}),
    ("triplet", {"smooth": True, "squared": True, "normalize": False}),
    ("margin", {"beta_per_class": True, "nu": 0.02, "num_classes": 10}),
    (
        "margin",
        {"beta_per_class": True, "nu": 0.02, "nu_reduction": "sum", "divisor": "active_triplets", "num_classes": 10},
    ),
    ("snr", {"normalize": False, "lam": 0.3, "reg_over": "anchors"}),
    ("snr", {"reduction": "mean", "centered": False}),
]


@pytest.mark.parametrize(("name", "settings"), LISTED)
@pytest.mark.parametrize("weighted", [False, True])
def test_all_triplets_at_once_equal_all_triplets_listed(
    batch: tuple[Tensor, Tensor], name: str, settings: dict[str, Any], weighted: bool
) -> None:
    rows, labels = batch
    weights = torch.linspace(0.5, 2, len(rows), dtype=rows.dtype) if weighted else None
    results = []
    for tuples in (None, create_miner("all")(rows, labels)):
        leaf, loss = rows.clone().requires_grad_(), create(name, miner="all", **settings).double()
        value = loss(leaf, labels, tuples=tuples, weights=weights)
        value.backward()
        results.append((value.detach(), leaf.grad, int(loss.active)))
    torch.testing.assert_close(results[0], results[1], rtol=1e-10, atol=1e-12)


class LargestTensor(TorchDispatchMode):
    """Watches every operation, forward and backward, for the most numbers in one tensor."""

    size = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, Tensor):
                self.size = max(self.size, tensor.numel())
        return result


def test_all_triplets_of_large_classes_build_nothing_cubic() -> None:
    rows = torch.randn(96, 8, generator=stream(0, "large"), requires_grad=True)
    labels = torch.arange(96) % 2  # 216,576 triplets
    with LargestTensor() as largest:
        create("triplet", miner="all", smooth=True)(rows, labels).backward()
    assert largest.size == 96 * 96


def test_semihard_takes_the_objectives_margin_unless_told_otherwise() -> None:
    assert Triplet(margin=0.5).miner == create_miner("semihard", margin=0.5)
    assert Triplet(margin=0.5, miner={"semihard": {"margin": 0.1}}).miner == create_miner("semihard", margin=0.1)


@pytest.mark.parametrize("name", ["contrastive", "margin", "triplet", "snr"])
def test_switched_tuples_have_a_finite_gradient_and_are_counted(name: str) -> None:
    rows = torch.randn(12, 6, generator=stream(0, "rows"), requires_grad=True)
    objective = create(name, miner="random", switch=1.0)
    loss = objective(rows, torch.arange(12) // 3, generator=stream(0, "miner"))
    assert torch.autograd.grad(loss, rows)[0].isfinite().all()
    assert objective.switched == 1


def test_contrastive_pushes_a_switched_pair_and_pulls_nothing() -> None:
    """(a, a, p): the positive distance is 0, what is left is [margin - d(a, p)]+."""
    rows = torch.tensor([[1.0, 0.0], [0.8, 0.6]])
    terms = create("contrastive").terms(rows, torch.tensor([0, 0]), tuples=torch.tensor([[0, 0, 1]]))
    assert terms["positive"] == 0
    assert terms["negative"].item() == pytest.approx(1 - 0.4**0.5, abs=1e-6)


WEIGHTED = [
    ("contrastive", {"miner": "all"}),
    ("lifted_structure", {}),
    ("fast_ap", {}),
    ("ranked_list", {}),
    ("quadruplet", {"miner": "all"}),
]


@pytest.mark.parametrize(("name", "settings"), WEIGHTED)
def test_weights_belong_to_the_anchor(batch: tuple[Tensor, Tensor], name: str, settings: dict[str, Any]) -> None:
    rows, labels = batch
    loss, ones = create(name, **settings), torch.eye(len(rows), dtype=rows.dtype)
    each = [loss(rows, labels, weights=one).item() for one in ones]
    assert math.fsum(each) == pytest.approx(loss(rows, labels).item())


def test_fast_ap_of_a_perfect_ranking_costs_nothing() -> None:
    rows, labels = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]]), torch.tensor([0, 0, 1, 1])
    loss = create("fast_ap")
    assert loss(rows, labels).item() == 0
    assert int(loss.active) == 0


def fast_ap_by_loop(rows: Tensor, labels: Tensor, bins: int) -> Tensor:
    """Cakir et al. 2019, anchor by anchor and node by node."""
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


def test_fast_ap_of_raw_rows_is_the_slow_loop(batch: tuple[Tensor, Tensor]) -> None:
    """Some of their distances are beyond the last node."""
    rows, labels = batch
    rows.requires_grad_()
    value, expected = create("fast_ap", normalize=False)(rows, labels), fast_ap_by_loop(rows, labels, 10)
    torch.testing.assert_close(value, expected, rtol=0, atol=1e-12)
    slopes = [torch.autograd.grad(each, rows)[0] for each in (value, expected)]
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-11)


def test_beta_is_learned_with_its_own_rate_and_gets_a_gradient() -> None:
    loss = Margin(beta=0.6, beta_lr_multiplier=7.0, miner="all")
    (slope,) = torch.autograd.grad(loss(torch.eye(4), torch.tensor([0, 0, 1, 1])), loss.beta)
    assert loss.lr_multipliers() == {"beta": 7.0}
    assert slope.item() == pytest.approx(-1.0)  # every active term is a pull


def test_a_fixed_beta_is_no_parameter_and_still_in_the_state() -> None:
    loss = Margin(learn_beta=False)
    assert list(loss.parameters()) == []
    assert loss.lr_multipliers() == {}
    assert "beta" in loss.state_dict()


def test_one_beta_takes_any_label() -> None:
    assert create("margin")(torch.eye(4), torch.tensor([-3, -3, 2**40, 2**40])).isfinite()


def test_a_large_temperature_takes_the_nearest_negative_alone() -> None:
    rows, labels = torch.tensor([[0.0], [0.5], [0.25]], dtype=torch.float64), torch.tensor([0, 1, 2])
    loss = create("ranked_list", temperature=1e4, normalize=False, alpha=1.0)
    assert loss(rows, labels).item() == pytest.approx(0.75)


def test_the_anchor_divides() -> None:
    rows = torch.tensor([[1.0, -1.0], [3.0, -3.0]])
    loss = create("snr", form="contrastive", normalize=False, lam=0.0, miner="all", reduction="mean")
    assert loss(rows, torch.tensor([0, 0])).item() == pytest.approx((4 / 1 + 4 / 9) / 2)


def quadruplet_by_loop(rows: Tensor, first: Tensor, second: Tensor, margin1: float, margin2: float) -> Tensor:
    """roth2020 eq. 14: `first` lists the (a, p, n) of the first term, `second` the (a, p, n, l) of the second."""
    unit = rows / rows.norm(dim=1, keepdim=True)

    def distance(i: int, j: int) -> Tensor:
        return (unit[i] - unit[j]).norm()

    one = [(distance(a, p) - distance(a, n) + margin1).relu() for a, p, n in first.tolist()]
    two = [(distance(a, p) - distance(k, n) + margin2).relu() for a, p, n, k in second.tolist()]
    return sum(one, 0.0 * rows.sum()) / max(1, len(one)) + sum(two, 0.0 * rows.sum()) / max(1, len(two))


def test_all_quadruplets_are_the_slow_loop(batch: tuple[Tensor, Tensor]) -> None:
    rows, labels = batch
    rows.requires_grad_()
    n, y = range(len(rows)), labels.tolist()
    three = [(a, p, k) for a in n for p in n for k in n if a != p and y[a] == y[p] != y[k]]
    four = [(*t, k) for t in three for k in n if y[k] not in (y[t[0]], y[t[2]])]
    loss = create("quadruplet", margin1=0.5, margin2=0.3, miner="all")
    lists = torch.tensor(three).reshape(-1, 3), torch.tensor(four).reshape(-1, 4)
    expected = quadruplet_by_loop(rows, *lists, 0.5, 0.3)
    (slope,) = torch.autograd.grad(expected, rows)
    for value in (loss(rows, labels), loss(rows, labels, weights=torch.ones_like(rows[:, 0]))):
        torch.testing.assert_close(value, expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(torch.autograd.grad(value, rows)[0], slope, rtol=0, atol=1e-11)


def test_the_fourth_sample_is_uniform_over_third_classes() -> None:
    labels = torch.tensor([5, -2, 5, 9, 9, 9, -2, 7])
    triplets = torch.tensor([[0, 2, 3], [3, 4, 1], [1, 6, 7], [0, 0, 2]]).repeat(4000, 1)  # the last one is switched
    fourth = draw_fourth(labels, triplets, stream(0, "fourth")).reshape(-1, 4)
    for column, allowed in zip(fourth.T, ([1, 6, 7], [0, 2, 7], [0, 2, 3, 4, 5], [1, 3, 4, 5, 6, 7]), strict=True):
        shares = torch.bincount(column, minlength=8) / 4000
        wanted = torch.zeros(8).index_fill_(0, torch.tensor(allowed), 1 / len(allowed))
        torch.testing.assert_close(shares, wanted, rtol=0, atol=0.03)


def test_two_classes_have_no_fourth_sample_and_no_second_term() -> None:
    labels = torch.tensor([0, 0, 1, 1])
    assert draw_fourth(labels, torch.tensor([[0, 1, 2]]), stream(0, "fourth")).tolist() == [-1]
    terms = create("quadruplet").terms(torch.eye(4), labels)
    assert terms["negatives"].item() == 0
    assert terms["triplet"].item() == pytest.approx(1)


def test_given_triplets_get_a_fourth_sample() -> None:
    labels, triplets = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([[0, 1, 2]])
    assert create("quadruplet")(torch.eye(6), labels, tuples=triplets).item() == pytest.approx(1.5)
    with pytest.raises(BadInput, match="needs triplets"):
        create("quadruplet")(torch.eye(6), labels, tuples=torch.tensor([[0, 1]]))


ROWS, LABELS = torch.eye(4), torch.tensor([0, 0, 1, 5])


@pytest.mark.parametrize(
    ("name", "settings", "options", "message"),
    [
        ("contrastive", {"reduction": "sum"}, {}, "'mean', 'mean_nonzero'"),
        ("fast_ap", {"bins": 2.5}, {}, "integer"),
        ("histogram", {"bins": 10.5}, {}, "integer"),
        ("histogram", {}, {"weights": torch.ones(4)}, "takes no weights"),
        ("generalized_lifted", {"nu_power": 3}, {}, "1, 2"),
        ("margin", {"beta_per_class": True}, {}, "num_classes"),
        (
            "margin",
            {"beta_per_class": True, "num_classes": 2},
            {},
            "2 classes but got the label 5: labels must be 0 to 1",
        ),
        ("multi_similarity", {"miner": "random"}, {}, "takes no miner"),
        ("multi_similarity", {}, {"tuples": torch.tensor([[0, 1, 2]])}, "two lists of pairs"),
        ("n_pair", {"form": "all"}, {"tuples": torch.tensor([[0, 1]])}, "form 'all'"),
        ("nt_xent", {"temperature": 0.0}, {}, "above 0"),
        ("ranked_list", {"combine": "convex", "lam": 2.0}, {}, "between 0 and 1"),
        ("quadruplet", {}, {"tuples": torch.tensor([[0, 1]])}, "needs triplets"),
        ("triplet", {"switch": -0.1}, {}, "switch"),
        ("triplet", {"switch": "often"}, {}, "switch"),
        ("triplet", {}, {"tuples": torch.tensor([[0, 1]])}, r"'triplet' needs triplets.*\(t, 3\), but got .* \(1, 2\)"),
    ],
)
def test_wrong_settings_and_calls_are_refused(
    name: str, settings: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises((BadInput, BadSpecification), match=message):
        create(name, **settings)(ROWS, LABELS, **options)
