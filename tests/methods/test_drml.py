"""DRML: the wrapped loss in every branch and on the joined rows, against loops, laws and degenerate batches."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from levelfield import methods, objectives
from levelfield.embedder import Head
from levelfield.embedder.relation import RelationHead, Steps
from levelfield.errors import BadSpecification
from levelfield.methods import Batch, Setting
from levelfield.methods.drml import Drml
from levelfield.papers import published
from levelfield.randomness import stream

CLASSES, DIM, WIDTH = 5, 8, 18
LABELS = torch.arange(20) % CLASSES
REFUSED = {name for name in objectives.names() if objectives.describe(name).roles} | {"hist", "message_passing"}
ALLOWED = sorted(set(objectives.names()) - REFUSED)


def create(objective="cosface", *, num_classes=CLASSES, dim=DIM, **settings):
    sizes = {"num_classes": num_classes, "dim": dim}
    return methods.create("drml", objective=objective, generator=stream(0, "proxies"), **sizes, **settings)


def head_of(method, seed=0, width=WIDTH, dim=DIM):
    head = method.head(SimpleNamespace(width=width, labels=np.zeros(1), rows=None), Setting(dim, width, seed)).train()
    with torch.no_grad():
        for parameter in head.parameters():  # the edges do nothing before the integrator hears them
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=stream(seed, "moved", *parameter.shape)))
    return head


def features(count=20, width=WIDTH):
    return torch.randn(count, width, generator=stream(0, "features", count, width), requires_grad=True)


class Bare(nn.Module):
    """An embedder whose inputs are the features."""

    def __init__(self, head, bf16=False):
        super().__init__()
        self.head, self.bf16 = head, bf16

    def forward(self, inputs):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            return self.head(inputs)


def stepped(method, head, rows, labels, seed=0, bf16=False):
    batch = Batch(rows, labels, np.arange(len(labels)), None, 0, 0)
    return method.step(Bare(head, bf16), batch, stream(seed, "step"))


def steps_with(errors, nodes=None, final=None):
    batch, branches = errors.shape
    nodes = torch.randn(batch, branches, DIM // branches, generator=stream(0, "nodes")) if nodes is None else nodes
    final = torch.randn(batch, DIM, generator=stream(0, "final")) if final is None else final
    return Steps(nodes.requires_grad_(), errors, torch.zeros(batch, branches, branches), final.requires_grad_())


def by_loops(method, steps, labels, generator):
    """Each branch by its own list of rows, each row by its own comparison."""
    branches = steps.nodes.new_zeros(())
    best = [min(range(len(method.branches)), key=errors.__getitem__) for errors in steps.errors.tolist()]
    for k, objective in enumerate(method.branches):
        rows = [i for i in range(len(labels)) if best[i] == k]
        if len(rows) >= (1 if objective.facts.least == (1, 1) else 2):
            nodes = torch.stack([steps.nodes[i, k] for i in rows])
            branches = branches + sum(objective.terms(nodes, labels[rows], generator=generator).values())
    final = sum(method.objective.terms(steps.final, labels, generator=generator).values())
    total = sum(steps.errors[i, k] for i in range(len(labels)) for k in range(len(method.branches)))
    reconstruction = total / (len(labels) * len(method.branches))
    return method.weight_branch * branches + method.weight_final * final + method.weight_reconstruction * reconstruction


@pytest.mark.parametrize("name", ["cosface", "proxy_anchor", "triplet", "margin", "multi_similarity", "softmax"])
def test_loss_and_gradients_are_those_of_the_loops(name):
    method = create(name, weight_branch=0.7, weight_final=3.0, weight_reconstruction=0.4).double()
    head, rows = head_of(method).double(), features().detach().double().requires_grad_()
    head(rows)
    terms = method.terms(head.taken(), LABELS, stream(0, "step"))  # a step's rows are float32
    assert list(terms) == ["branches", "final", "reconstruction"]
    of = [rows, *head.parameters(), *method.parameters()]
    ours = torch.autograd.grad(sum(terms.values()), of, allow_unused=True)
    head(rows)
    slow = by_loops(method, head.taken(), LABELS, stream(0, "step"))
    torch.testing.assert_close(sum(terms.values()), slow)
    for mine, theirs in zip(ours, torch.autograd.grad(slow, of, allow_unused=True), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("name", ALLOWED)
def test_every_objective_that_may_be_wrapped_gives_finite_numbers_on_any_division(name):
    method = create(name)
    random = torch.rand(len(LABELS), 4, generator=stream(0, "errors"))
    lonely = torch.ones(len(LABELS), 4)  # one image alone in each of three branches
    lonely[:, 3] = 0
    lonely[torch.arange(3), torch.arange(3)] = -1
    for errors in (random, lonely, random[:1], random[:2]):
        steps = steps_with(errors)
        value = sum(method.terms(steps, LABELS[: len(errors)], stream(0, "step")).values())
        assert value.isfinite()
        value.backward()
        assert steps.final.grad.isfinite().all()
        assert steps.nodes.grad is None or steps.nodes.grad.isfinite().all()
        assert all(p.grad is None or p.grad.isfinite().all() for p in method.parameters())


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_needs_whole_batches_is_refused(name):
    with pytest.raises(BadSpecification, match=f"cannot wrap the objective '{name}'.*cosface"):
        create(name, dim=16)


@pytest.mark.parametrize("name", ["cosface", "triplet"])
def test_all_images_in_one_branch_leave_the_others_at_0(name):
    method, errors = create(name), torch.ones(len(LABELS), 4)
    errors[:, 2] = 0
    steps = steps_with(errors)
    losses = method.branch_losses(steps, LABELS, stream(0, "step"))
    assert [bool(loss) for loss in losses] == [False, False, True, False]
    alone = method.branches[2](steps.nodes[:, 2], LABELS, generator=stream(0, "step"))
    torch.testing.assert_close(losses[2], alone)
    sum(losses).backward()
    others = [p.grad for k in (0, 1, 3) for p in method.branches[k].parameters()]
    assert all(grad is not None and not grad.any() for grad in others)  # momentum and decay go on, as in the release
    assert not steps.nodes.grad[:, [0, 1, 3]].any()


def test_what_is_drawn_comes_from_the_generator():
    method = create("margin", settings={"miner": "random"})
    head, rows = head_of(method), features()
    before = torch.random.get_rng_state()
    first, again, other = (stepped(method, head, rows, LABELS, seed) for seed in (0, 0, 1))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["final"], other["final"])


def test_proxies_start_as_in_the_released_code():
    method = create("cosface", num_classes=3000, dim=64)
    branch, final = method.branches[0].proxies, method.objective.proxies
    assert branch.std().item() == pytest.approx(1 / math.sqrt(3 * 16), rel=0.02)
    assert branch.abs().max() > 3 / math.sqrt(3 * 16)  # normal
    assert final.abs().max().item() == pytest.approx(1 / math.sqrt(64), rel=0.01)  # uniform
    assert final.std().item() == pytest.approx(1 / math.sqrt(3 * 64), rel=0.02)
    assert not torch.equal(branch, method.branches[1].proxies)
    chosen = create("cosface", settings={"proxy_init": "small_normal"}, num_classes=3000, dim=64)
    assert chosen.objective.proxies.std().item() == pytest.approx(1 / 8, rel=0.02)


def test_class_means_put_the_branches_at_the_means_of_their_nodes():
    method = create("soft_triple", settings={"centers_per_class": 1})
    head = method.head(SimpleNamespace(width=WIDTH), Setting(DIM, WIDTH)).train()
    with torch.no_grad():
        rows = nn.functional.normalize(head(features()), dim=1)
    means = torch.stack([rows[c == LABELS].mean(0) for c in range(CLASSES)])
    method.start_proxies(means)
    assert torch.equal(method.objective.centers, means)
    nodes = head.taken().nodes
    for k, branch in enumerate(method.branches):
        expected = torch.stack([nodes[c == LABELS, k].mean(0) for c in range(CLASSES)])
        torch.testing.assert_close(branch.centers.detach(), expected)


def test_own_rates_and_all_parameters_stand_in_groups():
    method = create("margin", settings={"beta_lr_multiplier": 7.0})
    assert {group.name: (group.multiplier, group.kind) for group in method.groups()} == {
        "beta": (7.0, "gains"),
        "branch_beta": (7.0, "gains"),
    }
    for name in ALLOWED:
        made = create(name)
        grouped = [id(p) for group in made.groups() for p in group.parameters]
        assert sorted(grouped) == sorted(id(p) for p in made.parameters())


def test_defaults_and_the_preset_are_the_published_ones():
    (params,) = [entry["params"] for entry in published.hyperparameters() if entry["method"] == "drml_proxy_anchor"]
    made = create("proxy_anchor", settings={"preset": "zheng2021/cub/drml"})
    assert len(made.branches) == params["branches"]
    assert made.weight_final == params["weight_representation"]
    assert made.weight_reconstruction == params["weight_reconstruction"]
    assert (made.objective.alpha, made.objective.delta) == (params["alpha"], params["delta"])
    rates = {group.name: group.multiplier for group in made.groups()}
    proxies_over_head = params["proxy_lr"] / params["lr_embedding"]
    assert rates == {"proxies": proxies_over_head, "branch_proxies": proxies_over_head}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"branches": 3}, "dim 8 .*'branches: 2'"),
        ({"branches": 0}, "branches"),
        ({"settings": 3}, "'settings' of 'drml' is 3"),
        ({"weight_final": -1}, "weight_final"),
        ({"settings": {"margn": 1}}, "Did you mean 'margin'"),
        ({"weight_finl": 1}, "Did you mean 'weight_final'"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(BadSpecification, match=message):
        create("cosface", **settings)


def test_a_trunk_with_fewer_features_than_branches_and_another_head_are_refused():
    method = create("cosface")
    with pytest.raises(BadSpecification, match="cannot split 3 features into 4 branches"):
        method.check(SimpleNamespace(width=3), SimpleNamespace(roles=None))
    with pytest.raises(BadSpecification, match="needs its own head, not a Head"):
        stepped(method, Head(WIDTH, DIM), features(), LABELS)


def test_bf16_gives_full_precision_losses():
    method = create("triplet")
    head, rows = head_of(method), features()
    terms = stepped(method, head, rows, LABELS, bf16=True)
    assert {term.dtype for term in terms.values()} == {torch.float32}
    sum(terms.values()).backward()
    assert rows.grad.isfinite().all()


def test_somebodys_own_loss_can_be_wrapped(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n\n\nclass Mine(torch.nn.Module):\n"
        "    def forward(self, embeddings, labels):\n        return embeddings.square().mean()\n"
    )
    method = create(f"{tmp_path}/mine.py:Mine")
    assert isinstance(method, Drml)
    assert isinstance(head_of(method), RelationHead)
    assert sum(stepped(method, head_of(method), features(), LABELS).values()).isfinite()
