"""DREML: division of classes, training of a member, and its declaration."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from levelfield import batching, methods
from levelfield.errors import BadSpecification
from levelfield.methods import Batch, Setting
from levelfield.methods.dreml import Dreml, partition
from levelfield.randomness import numpy_stream, stream


def division(meta: np.ndarray) -> frozenset[frozenset[int]]:
    """Which classes are together, whatever the meta classes are called."""
    return frozenset(frozenset(np.flatnonzero(meta == each).tolist()) for each in np.unique(meta))


def divided(classes: int, meta_classes: int, members: int, **settings) -> list[np.ndarray]:
    return [partition(classes, meta_classes, member, **{"seed": 0, **settings}) for member in range(members)]


@given(st.integers(2, 12), st.integers(1, 30), st.integers(0, 2), st.integers(0, 2**31))
def test_sizes_differ_by_at_most_one(meta_classes, more, member, seed):
    classes = meta_classes + more  # at least three ways to divide them
    counts = np.bincount(partition(classes, meta_classes, member, seed=seed), minlength=meta_classes)
    assert set(counts) <= {classes // meta_classes, -(-classes // meta_classes)}


@pytest.mark.parametrize(
    ("classes", "meta_classes", "balanced", "ways"),
    [(4, 2, True, 3), (5, 2, True, 10), (5, 4, True, 10), (4, 2, False, 8), (4, 4, False, 15), (3, 2, False, 4)],
)
def test_all_ways_to_divide_are_met_once_and_then_it_is_said_that_there_are_no_more(
    classes, meta_classes, balanced, ways
):
    drawn = divided(classes, meta_classes, ways, balanced=balanced)
    assert len({division(meta) for meta in drawn}) == ways
    with pytest.raises(BadSpecification, match=f"partitions of {classes} classes into .* is {ways}"):
        partition(classes, meta_classes, ways, seed=0, balanced=balanced)


def test_a_member_is_divided_alike_whatever_others_there_are_and_seeds_differ():
    first = divided(98, 12, 3)
    again = divided(98, 12, 6)
    for one, other in zip(first, again, strict=False):
        np.testing.assert_array_equal(one, other)
    assert division(first[0]) != division(partition(98, 12, 0, seed=1))


def rows_of(count: int, dim: int) -> torch.Tensor:
    return torch.from_numpy(numpy_stream(0, "rows").normal(size=(count, dim)))


@pytest.mark.parametrize("exclude", [True, False])
def test_learned_proxies_compare_vectors_of_length_m(exclude):
    outputs, labels, m = rows_of(7, 4), torch.tensor([0, 1, 2, 3, 0, 1, 2]), 2.5
    settings = {"multiplier": m, "exclude_positive": exclude, "generator": stream(0, "p")}
    ours = Dreml(meta_classes=4, proxies="learned", **settings).objective.double()
    slow = 0.0
    for row, label in zip(outputs, labels.tolist(), strict=True):
        x = m * row / row.norm()
        distance = [float((x - m * proxy / proxy.norm()).square().sum()) for proxy in ours.proxies.detach()]
        others = [math.exp(-d) for c, d in enumerate(distance) if c != label or not exclude]
        slow += (distance[label] + math.log(sum(others))) / 7
    assert ours(outputs, labels).item() == pytest.approx(slow, abs=1e-9)


@pytest.mark.parametrize("settings", [{}, {"proxies": "learned"}])
def test_a_step_gives_the_loss_of_meta_labels_and_its_gradient(settings):
    method = methods.create("dreml", num_classes=20, dim=8, meta_classes=4, **settings)
    rows = rows_of(6, 4).float().requires_grad_()
    labels = torch.from_numpy(method.labels(np.arange(20), member=2, seed=5)[:6])
    loss = method.step(torch.nn.Identity(), Batch(rows, labels, np.arange(6), None, 0, 0), stream(0, "step"))["loss"]
    loss.backward()
    direct = method.objective(rows, labels) if settings else torch.nn.functional.cross_entropy(rows, labels)
    assert loss.item() == pytest.approx(direct.item())
    assert rows.grad.isfinite().all()
    assert rows.grad.abs().sum() > 0
    assert method.separable


def test_what_it_declares_and_asks_for():
    plain, learned = Dreml(meta_classes=5), Dreml(meta_classes=5, proxies="learned", batch="32", lr=0.1)
    assert plain.deviations(Setting(8, 16)) == {"dim": 5}
    said = learned.deviations(Setting(8, 16))
    assert said == {"dim": 5, "extra_parameters": 25, "batch": "32", "batching": "random", "lr": 0.1}
    assert (plain.dim_for(512), plain.members, methods.members("dreml", {"members": 3})) == (5, 12, 3)


def test_too_few_classes_are_refused_before_anything_trains():
    few = batching.create("random", np.repeat(np.arange(9), 4), batch_size=8)
    with pytest.raises(BadSpecification, match="'meta_classes' of 'dreml' is 12; it must be at most 9"):
        Dreml().check(None, few)
    Dreml(meta_classes=9, members=1).check(None, few)
    with pytest.raises(BadSpecification, match="into 9 meta classes is 1"):
        Dreml(meta_classes=9, members=2).check(None, few)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"meta_classes": 1}, "'meta_classes' is 1"),
        ({"members": 0}, "'members' is 0"),
        ({"proxies": "frozen"}, "'static', 'learned'"),
        ({"balanced": "no"}, "'balanced' is 'no'"),
        ({"proxies": "learned", "multiplier": 0}, "'multiplier' is 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong, said):
    with pytest.raises(BadSpecification, match=said):
        Dreml(**wrong)


def test_the_proxy_of_an_empty_meta_class_stays_where_it_was_drawn():
    method = Dreml(meta_classes=3, proxies="learned", balanced=False)
    before = method.proxies.detach().clone()
    method.start_proxies(torch.tensor([[1.0, 2.0, 3.0], [math.nan] * 3]))  # the last two have no image
    assert method.proxies[0].tolist() == [1.0, 2.0, 3.0]
    torch.testing.assert_close(method.proxies[1:].detach(), before[1:])
