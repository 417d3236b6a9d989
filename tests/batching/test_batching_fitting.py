"""Fit of batching and objective, the batching entry of a study, and roles passed to the loss."""

import numpy as np
import pytest
import torch

from levelfield import batching, methods, objectives
from levelfield.batching import Choice, Layout, check_fit, fits
from levelfield.errors import BadInput, BadSpecification
from levelfield.methods import Batch
from levelfield.papers import published

LABELS = np.repeat(np.arange(40), 12)


def make(name, *, batch_size=24, **settings):
    return batching.create(name, LABELS, batch_size=batch_size, **settings)


def learns(name, labels):
    """Whether such batches can have a gradient besides what single rows have by themselves."""
    own_terms = {"angular": "nu", "generalized_lifted": "nu", "n_pair": "nu", "snr": "lam"}
    off = {own_terms[name]: 0.0} if name in own_terms else {}
    objective = objectives.create(name, num_classes=24, dim=8, **off)
    drawn = torch.Generator().manual_seed(0)
    rows = torch.randn(40, len(labels), 8, generator=drawn, requires_grad=True)
    sum(objective(batch, labels, generator=drawn) for batch in rows).backward()
    return bool(rows.grad.abs().sum() > 0)


@pytest.mark.parametrize("name", objectives.names())
def test_what_an_objective_declares_to_need_is_enough(name):
    classes, together = objectives.describe(name).least
    singles = torch.arange(1, classes).repeat_interleave(2)  # triplets with more than one negative, if any
    assert learns(name, torch.cat([torch.zeros(together, dtype=torch.long), singles]))


@pytest.mark.parametrize("name", [n for n in objectives.names() if objectives.describe(n).least[1] > 1])
def test_what_an_objective_declares_to_need_is_needed(name):
    if name in ("group_loss", "ranked_list"):  # they push negatives apart, which is not what they are for
        assert learns(name, torch.arange(6))
    else:
        assert not learns(name, torch.arange(6))


@pytest.mark.parametrize(
    ("name", "settings", "objective", "verdict"),
    [
        ("spc", {}, "triplet", "yes"),
        ("spc", {"samples_per_class": 1}, "triplet", "no"),
        ("spc", {"samples_per_class": 1}, "proxy_anchor", "yes"),
        ("spc", {"samples_per_class": 24}, "triplet", "no"),
        ("spc", {"samples_per_class": 12}, "quadruplet", "no"),
        ("spc", {"samples_per_class": 8}, "quadruplet", "yes"),
        ("spc", {"replace": True}, "triplet", "by chance"),
        ("random", {}, "triplet", "by chance"),
        ("random", {}, "softmax", "yes"),
        ("random", {"batch_size": 41}, "triplet", "yes"),  # 41 images of 40 classes: two are of one
        ("spc_r", {}, "triplet", "yes"),
        ("n_pair", {}, "prototypical", "yes"),
        ("episodes", {"support": 2, "query": 2}, "margin", "yes"),
    ],
)
def test_fits(name, settings, objective, verdict):
    assert fits(make(name, **settings), objectives.describe(objective)).verdict == verdict
    assert fits(make(name, **settings), torch.nn.Identity()).verdict == "yes", "it declares nothing"


def test_the_error_names_what_is_needed_and_what_would_fit():
    with pytest.raises(
        BadSpecification,
        match=r"'spc' does not fit the objective 'triplet': it needs 2 images of a "
        r"class.*with their defaults: .*balanced.*n_pair, spc, spc_r",
    ):
        check_fit(make("spc", samples_per_class=1), objectives.create("triplet"))
    with pytest.raises(BadSpecification, match=r"needs 3 classes in a batch, but batches have at most 1.*These fit"):
        check_fit(make("m_per_class", batch_size=12, samples_per_class=12), objectives.create("quadruplet"))


def test_a_batching_is_written_as_a_name_or_with_settings_and_takes_its_images_per_class_from_the_layout():
    layout = Layout.parse("6x4")
    assert Choice.of(None, layout) == ("spc", {})
    assert Choice.of("n_pair", layout) == ("n_pair", {})
    assert Choice.of({"episodes": None}, layout) == ("episodes", {})
    assert Choice("balanced", {}).make(LABELS, layout).promise().together == 4
    assert Choice("balanced", {"samples_per_class": 2}).make(LABELS, layout).promise().together == 2
    assert Choice("n_pair", {"same_image": 0.1}).make(LABELS, layout, seed=3).seed == 3


def step(name, sampler, roles, **settings):
    """The loss of the first batch as a method computes it."""
    method = methods.create(name, num_classes=40, dim=5, **settings)
    positions = sampler.plan(0)[0]
    rows = torch.randn(len(positions), 5, generator=torch.Generator().manual_seed(0))
    batch = Batch(rows, torch.from_numpy(LABELS[positions]), positions, roles, 0, 0)
    return sum(method.step(torch.nn.Identity(), batch, torch.Generator()).values())


def test_prototypical_learns_by_the_roles_of_episodes():
    sampler = make("episodes", support=1, query=3, episodes=2)
    told = step("prototypical", sampler, sampler.roles)
    rows = torch.randn(24, 5, generator=torch.Generator().manual_seed(0)).double().reshape(2, 3, 4, 5)
    loss = 0.0
    for episode in rows:  # each with 3 classes: the first image is the prototype, the others are asked about
        distances = (episode[:, None, 1:] - episode[None, :, :1]).square().sum(-1)  # class asked, class, query
        loss += sum(distances[c, c].sum() + torch.logsumexp(-distances[c], 0).sum() for c in range(3)) / 18
    assert told.item() == pytest.approx(loss.item(), rel=1e-5)
    assert told.item() != pytest.approx(step("prototypical", sampler, None).item(), rel=1e-3)


@pytest.mark.parametrize("form", ["sampled", "pairs"])
@pytest.mark.parametrize("name", ["n_pair", "angular"])
def test_pairs_go_from_the_anchor_to_the_positive(name, form):
    sampler = make("n_pair")
    told = step(name, sampler, sampler.roles, form=form)
    swapped = step(name, sampler, {"anchor": sampler.roles["positive"], "positive": sampler.roles["anchor"]}, form=form)
    assert told.item() != pytest.approx(swapped.item(), rel=1e-4)
    objective = objectives.create(name, form=form)
    rows = torch.randn(24, 5, generator=torch.Generator().manual_seed(0))
    pairs = torch.arange(24).reshape(12, 2)
    labels = torch.from_numpy(LABELS[sampler.plan(0)[0]])
    assert told.item() == pytest.approx(objective(rows, labels, tuples=pairs).item(), rel=1e-5)


def test_roles_that_an_objective_does_not_know_are_nothing_to_it():
    sampler = make("episodes", support=2, query=2)
    assert torch.equal(step("margin", sampler, sampler.roles), step("margin", sampler, None))
    assert torch.equal(step("group_loss", sampler, sampler.roles), step("group_loss", sampler, None))


@pytest.mark.parametrize("entry", published.batches(), ids="{0[paper]} {0[methods]} {0[batch]}".format)
def test_the_batches_of_the_papers_can_be_made(entry):
    layout = Layout.parse(entry["batch"])
    labels = np.repeat(np.arange(100), 58)  # as CUB
    made = Choice.of(entry.get("batching"), layout).make(
        labels, layout, batches_per_epoch=entry.get("batches_per_epoch") or 2
    )
    rows = np.random.default_rng(0).normal(size=(5800, 4)).astype(np.float32) if made.needs_memory else None
    assert made.plan(0, rows).shape[1] == layout.batch_size


@pytest.mark.parametrize(
    ("sizes", "wish", "fitted", "reason"),
    [
        ([8] * 10, (25, 4), (10, 4), "10 training classes"),
        ([7] * 774, (25, 4), (25, 4), ""),
        ([2] * 30, (25, 4), (25, 2), "typical class has 2 images"),
        ([1, 1, 4, 4, 4], (25, 4), (3, 4), "14 training images"),
        ([1, 1, 1, 2], (2, 2), (2, 2), ""),
        ([5] * 3, (2, 1), (2, 1), ""),
    ],
)
def test_layout_fits_the_folder(sizes, wish, fitted, reason):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    layout = batching.fit_batch(labels, *wish)
    assert tuple(layout) == fitted
    assert reason in layout.change
    assert bool(layout.change) == (fitted != wish)
    batching.create("spc", labels, batch_size=layout.batch_size, samples_per_class=layout.per_class).plan(0)


def test_layout_needs_two_classes_and_a_pair():
    for labels in ([0, 0, 0], [0, 1, 2], [0, 0, 1]):
        with pytest.raises(BadInput):
            batching.fit_batch(labels)
