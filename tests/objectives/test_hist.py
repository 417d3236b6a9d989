"""HIST against its equations as loops, its ablations, and its pitfalls."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from levelfield import methods, objectives
from levelfield.errors import BadSpecification
from levelfield.objectives import Hist
from levelfield.objectives.hist import distances
from levelfield.randomness import stream

CLASSES, DIM, HIDDEN, LABELS = 5, 4, 3, torch.tensor([3, 0, 3, 1, 0, 3, 4])  # of class 2 there is nobody
FORMS: dict[str, dict[str, Any]] = {
    "paper": {},
    "positives": {"incidence": "positives"},
    "proxies": {"variance": "fixed"},
    "without distribution loss": {"distribution_weight": 0.0},
    "distribution loss alone": {"lambda_s": 0.0},
    "attention": {"relations": "attention"},
    "linear": {"relations": "linear"},
    "baseline": {"relations": "linear", "distribution_weight": 0.0},
    "other weights": {"lambda_s": 0.3, "distribution_weight": 2.0},
    "other numbers": {"tau": 3.0, "alpha": 0.4, "log_var_clamp": (-1, 0.5)},
    "own layer norm": {"layer_norm": False},
}


def made(*, width: int = HIDDEN, **settings: Any) -> Hist:
    """With parameters of ordinary size, variances on both sides of the clamp, and a batch norm that does something."""
    hist = Hist(num_classes=CLASSES, dim=DIM, hidden=width, **settings).double()
    with torch.no_grad():
        for name, parameter in hist.named_parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=stream(0, "hist", name), dtype=torch.float64))
    return hist


def rows() -> Tensor:
    return 3 * torch.randn(len(LABELS), DIM, generator=stream(0, "rows"), dtype=torch.float64) + 1


def test_ablations_are_their_equations() -> None:
    """The golden cases have the paper's form, positives only, and proxies."""
    linear, attention = made(relations="linear", distribution_weight=0.0), made(relations="attention")
    parts, z = dict(linear.named_parameters()), linear.z(rows())
    expected = functional.cross_entropy(z @ parts["theta2_weight"].T + parts["theta2_bias"], LABELS)
    torch.testing.assert_close(linear(rows(), LABELS), expected)
    parts = dict(attention.named_parameters())
    identity = torch.eye(len(LABELS), dtype=torch.float64)
    queries, keys = (z @ parts[name].T for name in ("query_weight", "key_weight"))
    graph = functional.scaled_dot_product_attention(queries, keys, identity)
    torch.testing.assert_close(attention.steps(rows(), LABELS).propagation, graph)
    hidden = graph @ (z @ parts["theta1_weight"].T + parts["theta1_bias"])
    hidden = functional.batch_norm(hidden, None, None, parts["bn_weight"], parts["bn_bias"], training=True)
    logits = graph @ (functional.leaky_relu(hidden, 0.1) @ parts["theta2_weight"].T + parts["theta2_bias"])
    expected = functional.cross_entropy(logits, LABELS)
    torch.testing.assert_close(attention.terms(rows(), LABELS)["classification"], expected)


@pytest.mark.parametrize("form", FORMS)
def test_there_is_no_parameter_without_a_use_and_each_has_a_rate(form: str) -> None:
    hist = made(**FORMS[form], distribution_lr_multiplier=7.0, hgnn_lr_multiplier=2.0)
    hist(rows(), LABELS).backward()
    for name, parameter in hist.named_parameters():
        assert parameter.grad is not None, name
        if name != "theta1_bias":  # close to nothing: the batch norm takes off what is the same in all rows
            assert parameter.grad.any(), name
    own = {name for name, _ in hist.named_parameters()}
    assert hist.lr_multipliers() == {name: 7.0 if name in ("means", "log_vars") else 2.0 for name in own}


def test_only_variances_within_the_clamp_learn() -> None:
    hist = made()
    hist(rows(), LABELS).backward()
    assert torch.equal(hist.log_vars.grad != 0, hist.log_vars > 0)
    assert (hist.log_vars < 0).any()


def test_distances_of_unit_rows_stay_within_0_and_4_in_float32() -> None:
    generator = stream(0, "many")
    means = torch.randn(300, 512, generator=generator)
    near = torch.cat((means, -means)) * torch.linspace(0.1, 50, 600)[:, None]
    found = distances(near, means, torch.full_like(means, -1.0), log_var_clamp=(0.0, 6.0))
    torch.testing.assert_close(found.diagonal(), torch.zeros(300), rtol=0, atol=2e-6)
    torch.testing.assert_close(found[300:].diagonal(), torch.full((300,), 4.0), rtol=0, atol=2e-6)


def test_the_hardest_sample_is_not_left_out() -> None:
    """Its probability is 0 in float32, and the released code would take the mean over the others."""
    hist = Hist(num_classes=2, dim=4, tau=100.0, lambda_s=0.0, variance="learned")
    embeddings = torch.tensor([[1.0, -1.0, 0.0, 0.0], [-1.0, 1.0, 0.0, 0.0]], requires_grad=True)
    with torch.no_grad():
        hist.means.copy_(embeddings)
        hist.means[:, 2] = 0.1  # exactly opposite rows have no direction in which to leave
    loss = hist(embeddings, torch.tensor([1, 1]))
    (slope,) = torch.autograd.grad(loss, embeddings)
    assert loss.item() > 150
    assert slope[0].any()


def test_a_rows_mean_and_length_are_nothing_to_the_loss_after_its_layer_norm() -> None:
    hist, embeddings = made(), 1000 * rows()  # far above the eps under the root
    moved = embeddings * torch.linspace(0.5, 3, len(embeddings), dtype=torch.float64)[:, None] + 70
    torch.testing.assert_close(hist(moved, LABELS), hist(embeddings, LABELS), rtol=1e-6, atol=0)
    bare = made(layer_norm=False)
    torch.testing.assert_close(bare(hist.z(embeddings), LABELS), hist(embeddings, LABELS))
    assert abs(bare(embeddings + 7000, LABELS) - bare(embeddings, LABELS)) > 0.01


def test_the_batchs_own_statistics_are_used_in_eval_mode_too() -> None:
    hist, embeddings = made(), rows()
    trained = hist(embeddings, LABELS)
    assert torch.equal(hist.eval()(embeddings, LABELS), trained)
    assert not list(hist.buffers())


def test_distributions_start_with_the_fan_out_of_the_classes() -> None:
    hist = Hist(num_classes=50, dim=200, hidden=20)
    for start in (hist.means, hist.log_vars):
        assert start.std().item() == pytest.approx(math.sqrt(2 / 50), rel=0.03)
    assert not torch.equal(hist.means, hist.log_vars)
    parts = dict(hist.named_parameters())
    assert parts["theta1_weight"].abs().max().item() == pytest.approx(1 / math.sqrt(200), rel=0.01)
    assert parts["theta2_bias"].abs().max().item() <= 1 / math.sqrt(20)
    other = Hist(num_classes=50, dim=200, hidden=20, generator=torch.Generator().manual_seed(1))
    assert all(
        not torch.equal(a, b)
        for (name, a), b in zip(parts.items(), other.parameters(), strict=True)
        if not name.startswith("bn")
    )


def test_nothing_kept_for_the_gradients_grows_faster_than_the_classes() -> None:
    sizes = []
    for classes in (1000, 4000):
        hist, kept = Hist(num_classes=classes, dim=16, hidden=8), []
        embeddings = torch.randn(10, 16, generator=stream(0, "wide"), requires_grad=True)

        def keep(tensor: Tensor, kept: list[int] = kept) -> Tensor:
            kept.append(tensor.untyped_storage().nbytes())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = hist(embeddings, torch.arange(10) * 90)
        loss.backward()
        sizes.append(max(kept))
        assert max(kept) <= classes * 16 * 4  # the parameters themselves; nothing as large as rows x classes x numbers
    assert sizes[1] <= 4 * sizes[0]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"tau": 0}, "'tau' is 0"),
        ({"lambda_s": 0.0, "distribution_weight": 0.0}, "both 0"),
        ({"relations": "hypergraf"}, "hypergraph"),
        ({"log_var_clamp": (6, 0)}, "the lower number must come first"),
        ({"log_var_clamp": 6}, "two numbers"),
        ({"hidden": 0}, "'hidden' is 0"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(BadSpecification, match=told):
        Hist(num_classes=3, dim=4, **wrong)


def test_in_a_run_the_head_normalises_the_rows_and_the_loss_does_not() -> None:
    """A second layer norm would change the rows by its epsilon, which Adam amplifies to 1e-4 in six steps."""
    alone, method = (
        make("hist", num_classes=CLASSES, dim=DIM, hidden=HIDDEN) for make in (objectives.create, methods.create)
    )
    rows = torch.randn(len(LABELS), DIM, generator=stream(0, "rows"))
    normed = torch.nn.functional.layer_norm(rows, (DIM,))
    assert method.norm_rows
    assert torch.equal(method.objective(normed, LABELS), alone(rows, LABELS))
    assert not methods.create("hist", num_classes=CLASSES, dim=DIM, layer_norm=False).norm_rows
